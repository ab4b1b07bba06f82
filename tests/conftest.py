"""The detectors that need a library stand on boards only where they are asked for: `pytest -m monitors`.

So every other test sees the same detectors whatever happens to be installed, in other processes too.
"""

import os

import pytest

SWITCH = "TRAINWRECK_MONITORS"


def pytest_configure(config: pytest.Config) -> None:
    asked = config.option.markexpr
    os.environ[SWITCH] = "on" if "monitors" in asked and "not monitors" not in asked else "off"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ[SWITCH] == "off":
        for item in items:
            if item.get_closest_marker("monitors"):
                item.add_marker(pytest.mark.skip(reason="pytest -m monitors, or make monitors, runs it"))

"""A detector whose library is missing: not on the board, named, and told in one line when asked for."""

import importlib.util
import subprocess
import sys
from typing import Any

import pytest

from trainwreck.evaluation.detectors import registry
from trainwreck.evaluation.detectors.registry import (
    absent,
    builtin_detectors,
    known_detectors,
    load_detector,
    missing_detectors,
)
from trainwreck.evaluation.errors import InputError

LIBRARIES = {"pyod", "pytorch_lightning", "river", "ruptures", "skchange", "stumpy", "transformers"}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Says which libraries can be found."""

    def set_up(*names: str) -> None:
        real = importlib.util.find_spec

        def find(name: str, package: str | None = None) -> Any:
            if name in LIBRARIES:
                return object() if name in names else None
            return real(name, package)

        monkeypatch.setenv(registry.SWITCH, "on")
        monkeypatch.setattr(importlib.util, "find_spec", find)

    return set_up


def test_it_is_off_the_board_and_says_what_to_install(installed: Any) -> None:
    installed("ruptures")
    assert "pelt" in builtin_detectors()
    assert "adwin" not in builtin_detectors()
    assert missing_detectors()["adwin"] == "river not installed"
    assert "pelt" not in missing_detectors()
    with pytest.raises(InputError) as caught:
        load_detector("adwin")
    assert str(caught.value) == "detector adwin: river not installed; pip install 'trainwreck[monitors]'"
    assert absent().startswith("not on the board: adwin, adwin_gated, capa, ")
    assert "river not installed" in absent()
    assert absent().endswith("; pip install 'trainwreck[monitors]')")
    assert set(builtin_detectors()) | set(missing_detectors()) == set(known_detectors())


def test_all_are_there_where_all_is_installed(installed: Any) -> None:
    installed(*LIBRARIES)
    assert missing_detectors() == {}
    assert absent() == ""
    assert builtin_detectors() == known_detectors()
    assert {library for one in known_detectors().values() for library in one.requires} == LIBRARIES


def test_the_switch_leaves_them_away(installed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(*LIBRARIES)
    monkeypatch.setenv(registry.SWITCH, "off")
    assert all(not one.requires for one in builtin_detectors().values())
    with pytest.raises(InputError, match=r"^detector pelt: TRAINWRECK_MONITORS=off$"):
        load_detector("pelt")
    monkeypatch.setenv(registry.SWITCH, "perhaps")
    with pytest.raises(InputError, match="TRAINWRECK_MONITORS: 'perhaps' is not allowed; allowed: on, off"):
        builtin_detectors()


def test_finding_out_imports_no_library() -> None:
    code = (
        "import sys\nfrom trainwreck.evaluation.detectors.registry import builtin_detectors, missing_detectors\n"
        f"builtin_detectors(), missing_detectors()\nprint(sorted({LIBRARIES!r} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"

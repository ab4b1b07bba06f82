"""Detectors that behave badly, in a file and as a command."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from trainwreck.evaluation.replay.sandbox.isolated import Isolated
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.opening import open_detector

HERE = Path(__file__).parent
Opened = Callable[..., Isolated]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Open a class of `misbehaving.py`, or a mode of `misbehaving_command.py`, under limits; closed after the test."""
    with ExitStack() as stack:

        def begin(name: str, **limits: float) -> Isolated:
            if name.startswith("cmd:"):
                name = f"cmd:{sys.executable} -I -S {HERE / 'misbehaving_command.py'} {name.removeprefix('cmd:')}"
            else:
                name = f"{HERE / 'misbehaving.py'}:{name}"
            detector = open_detector(name, Limits(**limits))  # type: ignore[arg-type]
            assert isinstance(detector, Isolated)
            return stack.enter_context(detector)

        yield begin

"""The command line in this process, and a small data set made by it."""

import io
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest

from trainwreck.cli import main

TINY = (
    "steps=24", "model.layers=2", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2",
    "evaluation.rows=4",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What a command left: exit code and both streams."""

    code: int
    out: str
    err: str

    def refused(self, *parts: str) -> None:
        """Hold that bad input was named in one line with all these parts; lines of progress may stand before it."""
        assert self.code == 2
        assert self.out == ""
        (line,) = (line for line in self.err.splitlines() if not line.startswith("gallery: "))
        assert line.startswith("trainwreck: ")
        for part in parts:
            assert part in line


def _call(*words: object) -> Result:
    out, err = io.StringIO(), io.StringIO()
    argv = ["trainwreck", *map(str, words)]
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "argv", argv), pytest.raises(SystemExit) as end:
        main()
    return Result(end.value.code or 0, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def tiny() -> tuple[str, ...]:
    """Overrides under which a run takes a fraction of a second."""
    return TINY


@pytest.fixture(scope="session")
def call() -> Callable[..., Result]:
    """`trainwreck` with these words, in this process and folder."""
    return _call


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture(scope="session")
def sweep() -> tuple[str, ...]:
    """The plan of the small data set."""
    return ("scenario=mask_missing,benign_clean_resume", "seed=range(2)", *TINY)


@pytest.fixture(scope="session")
def data_set(tmp_path_factory: pytest.TempPathFactory, sweep: tuple[str, ...]) -> Path:
    """Two scenarios on two seeds with their twins, a cure, and eight calibration runs. Read only."""
    folder = tmp_path_factory.mktemp("trained") / "data"
    result = _call("generate", *sweep, "--out", folder, "--workers", "1")
    assert result.code == 0, result.err
    return folder


@pytest.fixture(scope="session")
def harmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario that does harm in so short a run, and a look-alike. Read only."""
    folder = tmp_path_factory.mktemp("harmed") / "shown"
    result = _call(
        "generate", "scenario=nan_weight_spread,benign_clean_resume", *TINY, "--out", folder, "--workers", "1"
    )
    assert result.code == 0, result.err
    return folder


@pytest.fixture
def copied(data_set: Path, tmp_path: Path) -> Path:
    """A copy of the data set to write to."""
    return Path(shutil.copytree(data_set, tmp_path / "copied"))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Children that SIGINT interrupts, even where the tests themselves run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)

"""A log in a file, read as the one run that it holds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.logs.readers import Log, parse_mapping, read
from trainwreck.evaluation.logs.rules import Account, to_trace

Read = Callable[..., tuple[Trace, Account, Log]]


def _one(path: Path, *mapping: str, format: str | None = None, **asked: Any) -> tuple[Trace, Account, Log]:
    (log,) = read(path, format, parse_mapping(mapping), **asked)
    trace, account = to_trace(log, "r")
    return trace, account, log


@pytest.fixture(scope="session")
def read_one() -> Read:
    """Path, mapping as the command line takes it, format: trace, account and log."""
    return _one


@pytest.fixture
def read_text(tmp_path: Path) -> Callable[..., tuple[Trace, Account, Log]]:
    """The same of a text, as `run.csv` or another name."""

    def read_it(text: str | bytes, *mapping: str, name: str = "run.csv", **asked: Any) -> tuple[Trace, Account, Log]:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return _one(tmp_path / name, *mapping, **asked)

    return read_it

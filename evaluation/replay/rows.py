"""The rows of a recorded run, as a live run would log them, one dict a step."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from trainwreck.evaluation.dataset.schema import EVALUATIONS, SIGNALS
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.replay.logged_row import LoggedRow

__all__ = ["Block", "LoggedRow", "logged_at", "rows"]

NAMES = {signal.name: signal for signal in SIGNALS}

# Rows converted at a time. Small blocks keep the garbage collector quiet: a whole run at once is
# three times slower.
BLOCK = 64


def rows(trace: Trace) -> Iterator[dict[str, Any]]:
    """Full rows of a run: step, then every signal of the schema; None where nothing was logged.

    Each row is a dict of its own, and so is each list in it: nothing a detector does to a row
    reaches another detector.
    """
    for start in range(0, len(trace), BLOCK):
        stop = min(start + BLOCK, len(trace))
        block = Block(partial(_read, trace, start, stop))
        for at, step in enumerate(trace.steps[start:stop].tolist()):
            yield LoggedRow(step, block, at)


def logged_at(trace: Trace, name: str) -> np.ndarray | None:
    """Which rows have a signal that the trace has, [S] bool; None: all of them."""
    # An evaluation of the validation set that gave NaN was logged; of the second set none is told apart.
    if name == "validation_loss":
        return trace.evaluated
    if name in EVALUATIONS:
        return np.asarray(~np.isnan(trace.signals[name]))
    return trace.logged.get(name)


class Block:
    """The columns of some rows; a signal becomes Python numbers when the first row is asked for it.

    read: of a signal, one value a row: a number, a list of numbers, or None.
    """

    __slots__ = ("_columns", "_read", "_rows")

    names = NAMES

    def __init__(self, read: Callable[[str], list[Any]]) -> None:
        self._read = read
        self._columns: dict[str, list[Any]] = {}
        self._rows: list[tuple[Any, ...]] = []

    def value(self, name: str, at: int) -> Any:
        """As `logged_row.Source`."""
        return self._column(name)[at]

    def row(self, at: int) -> tuple[Any, ...]:
        """As `logged_row.Source`."""
        if not self._rows:
            self._rows = list(zip(*map(self._column, NAMES), strict=True))
        return self._rows[at]

    def _column(self, name: str) -> list[Any]:
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._read(name)
        return found


def _read(trace: Trace, start: int, stop: int, name: str) -> list[Any]:
    values = trace.signals.get(name)
    if values is None:
        return [None] * (stop - start)
    here: list[Any] = values[start:stop].tolist()
    known = logged_at(trace, name)
    if known is None:
        return here
    return [v if was else None for v, was in zip(here, known[start:stop].tolist(), strict=True)]

"""The rows of a recorded run, as a live run would log them, one dict a step."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from trainwreck.evaluation.dataset.schema import EVALUATIONS, SIGNALS
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.replay.logged_row import LoggedRow

__all__ = ["LoggedRow", "logged_at", "rows"]

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
        block = _Block(trace, start, min(start + BLOCK, len(trace)))
        for at, step in enumerate(block.steps):
            yield LoggedRow(step, block, at)


def logged_at(trace: Trace, name: str) -> np.ndarray | None:
    """Which rows have a signal that the trace has, [S] bool; None: all of them."""
    # An evaluation of the validation set that gave NaN was logged; of the second set none is told apart.
    if name == "validation_loss":
        return trace.evaluated
    if name in EVALUATIONS:
        return np.asarray(~np.isnan(trace.signals[name]))
    return trace.logged.get(name)


class _Block:
    """Rows start to stop of a trace; a signal becomes Python numbers when the first of them is asked for it."""

    __slots__ = ("_columns", "_rows", "start", "steps", "stop", "trace")

    names = NAMES

    def __init__(self, trace: Trace, start: int, stop: int) -> None:
        self.trace, self.start, self.stop = trace, start, stop
        self.steps: list[int] = trace.steps[start:stop].tolist()
        self._columns: dict[str, list[Any]] = {}
        self._rows: list[tuple[Any, ...]] = []

    def value(self, name: str, at: int) -> Any:
        return self.column(name)[at]

    def column(self, name: str) -> list[Any]:
        """One value a row: a number, a list of numbers, or None."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._read(name)
        return found

    def row(self, at: int) -> tuple[Any, ...]:
        if not self._rows:
            self._rows = list(zip(*map(self.column, NAMES), strict=True))
        return self._rows[at]

    def _read(self, name: str) -> list[Any]:
        values = self.trace.signals.get(name)
        if values is None:
            return [None] * (self.stop - self.start)
        here: list[Any] = values[self.start : self.stop].tolist()
        known = logged_at(self.trace, name)
        if known is None:
            return here
        return [v if was else None for v, was in zip(here, known[self.start : self.stop].tolist(), strict=True)]

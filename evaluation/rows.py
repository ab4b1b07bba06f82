"""The rows of a recorded run, as a live run would log them, one dict a step.

A row is filled as it is read: most detectors look at a few of the signals, and to make a Python
object of every number costs more than all else in a replay. A `LoggedRow` is a dict that holds its step
and fetches a signal when it is asked for; whatever looks at the row as a whole fills it first.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainwreck.evaluation.schema import EVALUATIONS, SIGNALS
from trainwreck.evaluation.trace import Trace

NAMES = tuple(signal.name for signal in SIGNALS)
KNOWN = frozenset(NAMES)

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
        for at in range(block.stop - start):
            yield LoggedRow(block, at)


class LoggedRow(dict[str, Any]):
    """One row; equal to, and to be used as, the dict of its step and every signal."""

    __slots__ = ("_at", "_block")

    def __init__(self, block: "_Block", at: int) -> None:
        self["step"] = block.steps[at]
        self._block: _Block | None = block
        self._at = at

    def __missing__(self, name: str) -> Any:
        if self._block is None or name not in KNOWN:
            raise KeyError(name)
        value = self[name] = self._block.column(name)[self._at]
        return value

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or (self._block is not None and name in KNOWN)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def _fill(self) -> None:
        """Every signal in the order of the schema, after which this is a dict like any other."""
        block = self._block
        if block is None:
            return
        self._block = None
        held = dict.copy(self)
        dict.clear(self)
        self["step"] = None
        dict.update(self, zip(NAMES, block.row(self._at)))  # noqa: B905  (as many by construction)
        dict.update(self, held)


def _filled(name: str) -> Callable[..., Any]:
    """The method of dict, on a row that is filled first."""
    method = getattr(dict, name)

    def whole(self: LoggedRow, *others: Any, **named: Any) -> Any:
        self._fill()
        return method(self, *others, **named)

    whole.__name__ = name
    return whole


for _name in (
    "__delitem__", "__eq__", "__ior__", "__iter__", "__len__", "__ne__", "__or__", "__repr__", "__reversed__",
    "__ror__", "clear", "copy", "items", "keys", "pop", "popitem", "setdefault", "update", "values",
):  # fmt: skip
    setattr(LoggedRow, _name, _filled(_name))


class _Block:
    """Rows start to stop of a trace; a signal becomes Python numbers when the first of them is asked for it."""

    __slots__ = ("_columns", "_rows", "start", "steps", "stop", "trace")

    def __init__(self, trace: Trace, start: int, stop: int) -> None:
        self.trace, self.start, self.stop = trace, start, stop
        self.steps: list[int] = trace.steps[start:stop].tolist()
        self._columns: dict[str, list[Any]] = {}
        self._rows: list[tuple[Any, ...]] = []

    def column(self, name: str) -> list[Any]:
        """One value a row: a number, a list of numbers, or None."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._read(name)
        return found

    def row(self, at: int) -> tuple[Any, ...]:
        """Every signal of one row, in the order of the schema."""
        if not self._rows:
            self._rows = list(zip(*map(self.column, NAMES), strict=True))
        return self._rows[at]

    def _read(self, name: str) -> list[Any]:
        values = self.trace.signals.get(name)
        if values is None:
            return [None] * (self.stop - self.start)
        here: list[Any] = values[self.start : self.stop].tolist()
        # An evaluation of the validation set that gave NaN was logged; of the second set none is told apart.
        known = self.trace.logged.get(name)
        if name in EVALUATIONS:
            known = self.trace.evaluated if name == "validation_loss" else ~np.isnan(values)
        if known is None:
            return here
        return [v if was else None for v, was in zip(here, known[self.start : self.stop].tolist(), strict=True)]

"""The rows of a recorded run, as a live run would log them, one dict a step.

Most detectors read a few of the signals, and making a Python object of every number costs more than
the rest of a replay. A `LoggedRow` holds its step and fetches a signal when it is read; whatever reads
the row as a whole fills it first.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from trainwreck.evaluation.dataset.schema import ADDED_SIGNALS, EVALUATIONS, SIGNALS
from trainwreck.evaluation.dataset.trace import Trace

__all__ = ["Block", "LoggedRow", "blank", "logged_at", "only", "rows"]

NAMES = {signal.name: signal for signal in SIGNALS}

# Rows converted at a time. Small blocks keep the garbage collector quiet: a whole run at once is
# three times slower.
BLOCK = 64


class Source(Protocol):
    """Where rows fetch their signals."""

    @property
    def names(self) -> Mapping[str, Any]:
        """Every signal, in the order that a filled row has them; what it maps to is the source's own."""
        ...

    def value(self, name: str, at: int) -> Any:
        """A signal of row `at`: a number, a list of numbers, or None."""
        ...

    def row(self, at: int) -> Sequence[Any]:
        """Every signal of row `at`, in the order of `names`."""
        ...


class LoggedRow(dict[str, Any]):
    """One row; equal to, and to be used as, the dict of its step and every signal."""

    __slots__ = ("_at", "_source")

    def __init__(self, step: int, source: Source, at: int) -> None:
        self["step"] = step
        self._source: Source | None = source
        self._at = at

    def __missing__(self, name: str) -> Any:
        source = self._source
        if source is None or name not in source.names:
            raise KeyError(name)
        value = self[name] = source.value(name, self._at)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or (self._source is not None and name in self._source.names)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def blank(self) -> dict[str, Any]:
        """A dict of its step, and None for every signal; this row is not filled for it."""
        if self._source is None:
            return dict.fromkeys(self) | {"step": self["step"]}
        return {"step": self["step"]} | dict.fromkeys(self._source.names)

    def unread(self) -> Source | None:
        """Its source, while no signal was read or changed."""
        return self._source if dict.__len__(self) == 1 else None

    def of(self, source: Source) -> "LoggedRow":
        """The same row of another source."""
        return LoggedRow(self["step"], source, self._at)

    def _fill(self) -> None:
        """Every signal in the order of its source, after which this is a dict like any other."""
        source = self._source
        if source is None:
            return
        self._source = None
        held = dict.copy(self)
        dict.clear(self)
        self["step"] = None
        dict.update(self, zip(source.names, source.row(self._at)))  # noqa: B905  (as many by construction)
        dict.update(self, held)


def _filled(name: str) -> Callable[..., Any]:
    """The method of dict, on rows that are filled first."""
    method = getattr(dict, name)

    def whole(self: LoggedRow, *others: Any, **named: Any) -> Any:
        for row in (self, *others):
            if isinstance(row, LoggedRow):
                row._fill()
        return method(self, *others, **named)

    whole.__name__ = name
    return whole


for _name in (
    "__delitem__", "__eq__", "__ior__", "__iter__", "__len__", "__ne__", "__or__", "__repr__", "__reversed__",
    "__ror__", "clear", "copy", "items", "keys", "pop", "popitem", "setdefault", "update", "values",
):  # fmt: skip
    setattr(LoggedRow, _name, _filled(_name))


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


def blank(row: Mapping[str, Any]) -> dict[str, Any]:
    """A dict of a row's step, and None for all else that it has."""
    return row.blank() if isinstance(row, LoggedRow) else dict.fromkeys(row) | {"step": row["step"]}


def only(rows: Iterable[Mapping[str, Any]], shown: Collection[str]) -> Iterator[dict[str, Any]]:
    """Of each row its step and some signals, and None for all else that it has."""
    source: _Shown | None = None
    for row in rows:
        if isinstance(row, LoggedRow) and (whole := row.unread()) is not None:
            if source is None or source.whole is not whole:
                source = _Shown(whole, shown)
            yield row.of(source)
        else:  # something was read, and maybe changed
            yield blank(row) | {name: row.get(name) for name in shown}


def logged_at(trace: Trace, name: str) -> np.ndarray | None:
    """Which rows have a signal that the trace has, [S] bool; None: all of them."""
    # An evaluation of the validation set that gave NaN was logged; of the second set none is told apart.
    if name == "validation_loss":
        return trace.evaluated
    if name in EVALUATIONS or (name in ADDED_SIGNALS and name not in trace.logged):
        unknown = np.isnan(trace.signals[name])
        return np.asarray(~(unknown if unknown.ndim == 1 else unknown.all(1)))
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
        """As `Source`."""
        return self._column(name)[at]

    def row(self, at: int) -> tuple[Any, ...]:
        """As `Source`."""
        if not self._rows:
            self._rows = list(zip(*map(self._column, NAMES), strict=True))
        return self._rows[at]

    def _column(self, name: str) -> list[Any]:
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._read(name)
        return found


class _Shown:
    """Some signals of a source; the others are None.

    whole: the source of every signal. shown: names of it.
    """

    __slots__ = ("_places", "names", "whole")

    def __init__(self, whole: Source, shown: Collection[str]) -> None:
        self.whole, self.names = whole, whole.names
        self._places = {name: place for place, name in enumerate(whole.names) if name in shown}

    def value(self, name: str, at: int) -> Any:
        """As `Source`."""
        return self.whole.value(name, at) if name in self._places else None

    def row(self, at: int) -> list[Any]:
        """As `Source`."""
        values: list[Any] = [None] * len(self.names)
        for name, place in self._places.items():
            values[place] = self.whole.value(name, at)
        return values


def _read(trace: Trace, start: int, stop: int, name: str) -> list[Any]:
    values = trace.signals.get(name)
    if values is None:
        return [None] * (stop - start)
    here: list[Any] = values[start:stop].tolist()
    known = logged_at(trace, name)
    if known is None:
        return here
    return [v if was else None for v, was in zip(here, known[start:stop].tolist(), strict=True)]

"""One row of telemetry as a dict that is filled as it is read.

Most detectors read a few of the signals, and making a Python object of every number costs more than
the rest of a replay. A `LoggedRow` holds its step and fetches a signal when it is read; whatever reads
the row as a whole fills it first.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


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

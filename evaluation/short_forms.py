"""Results as they are printed: a few lines in a terminal, and in a notebook a table or the same lines."""

import textwrap
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pandas as pd

V = TypeVar("V")
LINES, WIDTH = 30, 110  # of what is printed, at most


def count(number: int, noun: str) -> str:
    """A number of things, in the singular where it is one.

    >>> count(1, "run"), count(12, "run")
    ('1 run', '12 runs')
    """
    return f"{number} {noun}{'s' * (number != 1)}"


def few(lines: Iterable[str]) -> str:
    """Lines as one text, of which the last is "..." where there are more than `LINES`."""
    every = list(lines)
    return "\n".join(every if len(every) <= LINES else [*every[: LINES - 1], "..."])


def table(frame: "pd.DataFrame") -> str:
    """A table as HTML without its index, of at most `LINES` rows."""
    return str(frame.to_html(index=False, max_rows=LINES, float_format="{:.3f}".format))


class AsText:
    """A result that a notebook shows as it is printed."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


class Names(AsText, dict[str, V]):
    """Things by name. Printed are the names."""

    def __repr__(self) -> str:
        return few(textwrap.wrap(f"{len(self)}: {', '.join(self)}", WIDTH, break_on_hyphens=False))


class Facts(AsText, dict[str, V]):
    """Facts by name. Printed is a line a fact, cut to the width.

    >>> Facts(cores=2, devices="cpu")
    cores: 2
    devices: cpu
    """

    def __repr__(self) -> str:
        return few(_cut(f"{name}: {value}") for name, value in self.items())


class Results(AsText, list[V]):
    """Results of one kind. Printed is how many there are, and the first line of each.

    >>> Results(["proven", "not proven"])
    2:
      'proven'
      'not proven'
    """

    def __repr__(self) -> str:
        return _each(self)


class Series(AsText, tuple[V, ...]):
    """`Results` that can't be changed."""

    def __repr__(self) -> str:
        return _each(self)


def _each(several: Iterable[Any]) -> str:
    lines = [f"  {repr(one).partition(chr(10))[0]}" for one in several]
    return few([f"{len(lines)}:", *map(_cut, lines)])


def _cut(line: str) -> str:
    line = line.replace("\n", " ")
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..."

"""Which of a live log's columns are signals, decided again whenever a column first holds a value.

The names and their order are those of `readers.names`, so that a log that is followed to its end is
read as `trainwreck import` reads it afterwards.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_float
from typing import Any

from trainwreck.evaluation.dataset.schema import SIGNALS
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.limits import LogLimits
from trainwreck.evaluation.logs.log import checked_step
from trainwreck.evaluation.logs.names import Choice, Target, choose, target_of
from trainwreck.evaluation.logs.numbers import Numbers

_NOTHING = dict.fromkeys(signal.name for signal in SIGNALS)

Values = dict[Target, float]
"""What one row has: a number for a scalar signal, or for one entry of a list signal."""


class Columns:
    """Columns of one log. has_step: whether one of them must be the step. check: called with those that are read."""

    def __init__(
        self,
        mapping: Mapping[str, Target],
        *,
        has_step: bool = True,
        check: Callable[[Sequence[str]], None] = lambda taken: None,
        limits: LogLimits | None = None,
    ) -> None:
        self.mapping, self.has_step, self.check = mapping, has_step, check
        self.limits = limits or LogLimits()
        self.seen: dict[str, None] = {}  # columns that have held a value
        self.choice: Choice | None = None

    def read(self, cells: Mapping[str, Any], numbers: Numbers, place: str) -> tuple[int | None, Values]:
        """Step (None without a value, or where no column is the step) and values of a row.

        InputError that names `place` for a cell that is no number, a value without a step, or a
        step that no run can have.
        """
        fresh = [name for name, cell in cells.items() if cell is not None and cell != "" and name not in self.seen]
        self.seen |= dict.fromkeys(fresh)
        self.limits.check_columns(len(self.seen), place)
        if self._decides(fresh):
            self._choose(place)
        if self.choice is None:
            return None, {}
        values: Values = {}
        for column, cell in cells.items():
            target = self.choice.signals.get(column)
            value = None if target is None else numbers.value(cell, f"{place}: column {column!r}")
            if target is not None and value is not None:
                values[target] = value
        if not values or self.choice.step is None:
            return None, values
        step = numbers.step(cells.get(self.choice.step), f"{place}: column {self.choice.step!r}")
        if step is None:
            raise InputError(f"{place}: column {self.choice.step!r} is empty where a value is logged; allowed: a step")
        return checked_step(step, place), values

    def require(self, place: str) -> None:
        """InputError where no column was a signal, or one that `--map` names was never there."""
        if self.choice is None:
            choose(list(self.seen), self.mapping, place, has_step=self.has_step)
        missing = [column for column in self.mapping if column not in self.seen]
        if missing:
            raise InputError(f"--map: no log has a column {missing[0]!r}")

    def _decides(self, fresh: Sequence[str]) -> bool:
        """Whether new columns may change what is read: not those of no signal, and not one entry more of a list."""
        decides = False
        for name in fresh:
            target = self.mapping.get(name) or target_of(name)
            if self.choice is not None and target is not None and target.entry is not None:
                self.choice.signals.setdefault(name, target)
                self.check([name])
            elif target is not None:
                decides = True
        return decides

    def _choose(self, place: str) -> None:
        names = list(self.seen)
        try:
            choose(names, self.mapping, place, has_step=False)
        except InputError:  # nothing yet: the columns of a log may come one by one
            return
        self.choice = choose(names, self.mapping, place, has_step=self.has_step)
        self.check([*self.choice.signals, *([self.choice.step] if self.choice.step else [])])


def as_row(step: int, values: Mapping[Target, float], widths: dict[str, int]) -> dict[str, Any]:
    """The row that a detector sees: step and every signal of the schema, None where nothing was logged.

    Numbers are rounded to float32, as telemetry is. widths: the most entries that each list signal has
    had so far, kept up to date here; an entry that is missing is NaN.
    """
    row: dict[str, Any] = {"step": step, **_NOTHING}
    lists: dict[str, dict[int, float]] = {}
    for (name, entry), value in values.items():
        rounded = c_float(value).value
        if entry is None:
            row[name] = rounded
        else:
            lists.setdefault(name, {})[entry] = rounded
    for name, known in lists.items():
        width = widths[name] = max(widths.get(name, 0), max(known) + 1)
        row[name] = [known.get(entry, math.nan) for entry in range(width)]
    return row

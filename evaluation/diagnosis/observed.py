"""What a log has of a run: its rows, the curve of each signal, and the profile that is nearest to it."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from trainwreck.evaluation.constants import COMMON_SIGNALS
from trainwreck.evaluation.dataset.schema import SIGNALS
from trainwreck.evaluation.dataset.trace import LISTS, SCALARS, Trace
from trainwreck.evaluation.detectors.base import Row
from trainwreck.evaluation.replay.profiles import observe
from trainwreck.evaluation.replay.rows import rows

NAMES = tuple(signal.name for signal in SIGNALS)
RICH = 3  # signals besides the common ones from which on a log is nearer to `standard` than to `common`


class Curve(NamedTuple):
    """A scalar signal as it was logged: steps ascending and values, both [R], non-finite values included."""

    steps: np.ndarray
    values: np.ndarray

    @property
    def finite(self) -> "Curve":
        """The points with a finite value."""
        known = np.isfinite(self.values)
        return Curve(self.steps[known], self.values[known])

    def __len__(self) -> int:
        return len(self.steps)


class Observed:
    """A run as its log shows it. trace: of an imported log, or of a data set's run, seen under a profile.

    rows: in the order of their steps. signals: those that some row has.
    """

    def __init__(self, trace: Trace, profile: str = "full") -> None:
        self.rows: list[Row] = list(observe(rows(trace), profile, run_id=trace.run_id, objective=trace.objective))
        self.steps = np.array([row["step"] for row in self.rows], np.int64)
        self._curves: dict[str, Curve] = {}
        self.signals = tuple(name for name in NAMES if name in trace.signals and self._has(name))

    def curve(self, name: str) -> Curve:
        """The points of a scalar signal; empty where it was never logged."""
        if name not in self._curves:
            points = [(row["step"], value) for row in self.rows if (value := row.get(name)) is not None]
            steps, values = zip(*points, strict=True) if points else ((), ())
            self._curves[name] = Curve(np.array(steps, np.int64), np.array(values, np.float64))
        return self._curves[name]

    @property
    def interval(self) -> float:
        """Median number of steps between two points of the loss; NaN of fewer than two."""
        steps = self.curve("loss").steps
        return float(np.median(np.diff(steps))) if len(steps) > 1 else math.nan

    @property
    def profile(self) -> str:
        """The observation profile that shows most nearly what this log shows."""
        more = [name for name in self.signals if name not in COMMON_SIGNALS]
        steps = self.curve("loss").steps  # logs often have every step at first, and few later
        every = len(steps) > 0 and len(steps) > 0.5 * (steps[-1] - steps[0])
        if len(more) >= RICH or any(name in LISTS for name in more):
            return "full" if every else "standard"
        return "common" if every and {"grad_norm", "validation_loss"} & {*self.signals} else "minimal"

    def around(self, step: int, most: int = 4) -> list[dict[str, Any]]:
        """The rows next to a step, two before it if there are, with the scalars that they hold."""
        at = int(np.searchsorted(self.steps, step))
        return [_scalars(row) for row in self.rows[max(0, at - 2) : max(0, at - 2) + most]]

    def _has(self, name: str) -> bool:
        return any(_is_number(row[name]) for row in self.rows)


def _is_number(value: Any) -> bool:
    """Whether something was logged: a number, or a list with one in it that is not NaN."""
    return value is not None and (not isinstance(value, list) or any(one == one for one in value))


def _scalars(row: Row) -> dict[str, Any]:
    shown: Iterable[str] = (*COMMON_SIGNALS, *(name for name in SCALARS if name not in COMMON_SIGNALS))
    return {"step": row["step"]} | {name: row[name] for name in shown if row.get(name) is not None}

"""What generic detectors of change and outliers share: the numbers they are shown, raw or behind a gate.

Such a detector knows nothing of training. Shown the loss as it is logged it alarms at the fall of every healthy
loss, and after one NaN or infinity most of them are silent for ever. So there are two of each: raw, and `_gated`,
behind a gate that is the same for all. The gate

- alarms by itself at a loss or gradient norm that is NaN or infinite (a step that fp16 skipped is routine), and
  keeps the detector from seeing it;
- shows it in place of each number how far its logarithm is from what level and slope of the past foretell, in
  standard deviations of what it was off before: about 0 +- 1 on any healthy run.
"""

import math
from collections.abc import Mapping
from typing import ClassVar

from trainwreck.evaluation.detectors.base import LARGEST_SCORE, QUIET, Context, Detector, Row, Verdict

NONFINITE = Verdict(LARGEST_SCORE, True)

SMALLEST = 1e-9  # of what a logarithm is taken; a loss of exactly 0 is how some loggers show NaN
MEMORY = 16  # rows that level and slope rest on; more, and a healthy loss curves away from its line
LEAST = 24  # rows before there is a scale
OUTLIER = 4.0  # standard deviations; what is further off moves level and scale as if it were so far
FARTHEST = 20.0  # standard deviations; what is further off is shown as so far
STILL = 1e-3  # the least standard deviation of a logarithm: a thousandth of the value


class SeriesDetector(Detector):
    """Base class: `begin` for a new run, `step` for the numbers of a row. A row without a loss is passed over."""

    signals: ClassVar[tuple[str, ...]] = ("loss",)

    def begin(self) -> None:
        """Start a new run."""
        raise NotImplementedError

    def step(self, values: Mapping[str, float]) -> Verdict:
        """Judge the numbers of a row: signal to value, the loss among them."""
        raise NotImplementedError

    def reset(self, context: Context | None) -> None:
        self.begin()

    def update(self, row: Row) -> Verdict:
        values = {name: row[name] for name in self.signals if row.get(name) is not None}
        return self.step(values) if "loss" in values else QUIET


class Gated(SeriesDetector):
    """To be named before a SeriesDetector as a base class: the same detector behind the gate."""

    def reset(self, context: Context | None) -> None:
        super().reset(context)
        self.surprise = {name: Surprise() for name in self.signals}

    def update(self, row: Row) -> Verdict:
        loss, norm = row.get("loss"), row.get("grad_norm")
        if loss is not None and not math.isfinite(loss):
            return NONFINITE
        if norm is not None and not math.isfinite(norm):
            if row.get("skipped") != 1.0:
                return NONFINITE
            norm = None
        values = {}
        for name, surprise in self.surprise.items():
            value = norm if name == "grad_norm" else row.get(name)
            found = surprise.push(value) if value is not None else None
            if found is not None:
                values[name] = found
        return self.step(values) if "loss" in values else QUIET


class Surprise:
    """How far a positive number is from its trend, in standard deviations.

    Level and slope of its logarithm are followed by Holt's double smoothing, with the gains that make it the
    least-squares line through the rows so far; from row 16 on they stay what they are.

    >>> surprise = Surprise()
    >>> falling = [surprise.push(4.0 * 0.99**row * (1.01 if row % 2 else 0.99)) for row in range(200)]
    >>> falling[0] is None, max(abs(z) for z in falling[100:]) < 1.5, surprise.push(8.0)
    (True, True, 20.0)
    """

    def __init__(self) -> None:
        self.level = self.slope = 0.0
        self.spread = 0.0  # mean absolute deviation
        self.rows = 0

    def push(self, value: float) -> float | None:
        """Take a finite value in; its surprise, None while the past is too short for one."""
        now = math.log(max(value, SMALLEST))
        self.rows += 1
        if self.rows == 1:
            self.level = now
            return None
        foretold = self.level + self.slope
        off = now - foretold
        # The mean absolute deviation of a normal variable is 0.798 of its standard deviation.
        scale = max(self.spread / 0.798, STILL)
        young = self.rows <= LEAST
        moved = off if young else max(-OUTLIER * scale, min(OUTLIER * scale, off))
        n = min(self.rows, MEMORY)
        self.level = foretold + 2.0 * (2.0 * n - 1.0) / (n * (n + 1.0)) * moved
        self.slope += 6.0 / (n * (n + 1.0)) * moved
        self.spread += (abs(moved) - self.spread) / n
        return None if young else max(-FARTHEST, min(FARTHEST, off / scale))

"""What the trees for logs read: the four signals of a public log, in relation to what the same run did before.

A log has a loss in any unit, one row a step or one in 500, and any length. No number here depends on these:

    losses         in shares of their own fall, or over the noise of a row (`playbook/fall.py`)
    gradient norm  as its logarithm, less an average of its own past
    learning rate  over its largest so far, and over an average of its own past
    times          as shares of the rows, or of rows and steps, so far

so that a factor or a constant on a loss, a factor on the gradient norm or the learning rate, and every n-th row in
place of all change next to nothing. The number of rows counts up to `FEW`, since little is known from few. The state is
as large after a million rows as after one.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainwreck.evaluation.constants import COMMON_SIGNALS
from trainwreck.evaluation.detectors.playbook.fall import Fall

FEW = 100  # rows, beyond which their number says nothing
FAST, FAST_SHARE = 3.0, 0.03  # rows of an average, and share of the rows so far
SLOW, SLOW_SHARE = 12.0, 0.25
MOST = 50.0  # by which every number is cut off
LEAST = 1e-12  # of what a logarithm is taken of
FIRST_EVALUATIONS = 5  # after so many the shape of a validation loss is judged

OF_LOSS = (
    "fall over noise", "off its least", "given back", "share of the run off its least", "share without progress",
    "noise over fall", "over its level in noise", "over its level in falls", "noise over usual noise",
    "recent fall", "recent fall over noise", "mean off its least", "repeated",
)  # fmt: skip
OF_NORM = ("jump", "shift", "since the start", "over its least", "under its largest", "spread", "not finite lately")
OF_RATE = ("under its largest", "shift", "share of the run unchanged")
NAMES: tuple[str, ...] = (
    "rows",
    *(f"{loss}: {what}" for loss in ("loss", "validation_loss") for what in OF_LOSS),
    *(f"grad_norm: {what}" for what in OF_NORM),
    *(f"lr: {what}" for what in OF_RATE),
    "validation less training: off its least",
    "validation less training: given back",
    "validation less training: share without progress",
)
# More of these never makes a run look better, whatever the training runs happened to show.
RISING = frozenset(
    f"{loss}: {what}"
    for loss in ("loss", "validation_loss")
    for what in ("off its least", "given back", "share of the run off its least", "mean off its least",
                 "share without progress")
)  # fmt: skip
FALLING = frozenset(f"{loss}: fall over noise" for loss in ("loss", "validation_loss"))
SIGNALS_READ = COMMON_SIGNALS


class LogFeatures:
    """The state of one run.

    >>> features = LogFeatures()
    >>> values = [features.see({"step": 10 * i, "loss": 7.0 if i < 30 else 9.0 - i / 15}) for i in range(60)]
    >>> len(values[-1]) == len(NAMES), float(values[-1][NAMES.index("loss: off its least")])
    (True, 0.0)
    """

    def __init__(self) -> None:
        self.rows = 0
        self.loss, self.validation = _Loss(Fall()), _Loss(Fall(FIRST_EVALUATIONS, 1))
        self.norm, self.rate = _Norm(), _Rate()

    def see(self, row: Mapping[str, Any]) -> np.ndarray:
        """Take in a row, whatever it holds. [len(NAMES)], NaN where nothing is known"""
        self.rows += 1
        step = int(row["step"])
        self.loss.see(row.get("loss"), step)
        self.validation.see(row.get("validation_loss"), step)
        self.norm.see(row.get("grad_norm"))
        self.rate.see(row.get("lr"))
        loss, validation = self.loss.values, self.validation.values
        values = (
            math.log(min(self.rows, FEW)),
            *loss,
            *validation,
            *self.norm.values,
            *self.rate.values,
            validation[1] - loss[1],
            validation[2] - loss[2],
            validation[4] - loss[4],
        )
        return np.clip(np.array(values, dtype=np.float64), -MOST, MOST)


class _Average:
    """Exponential average over a share of the values so far, and at least over so many."""

    def __init__(self, least: float, share: float) -> None:
        self.least, self.share, self.count, self.value = least, share, 0, math.nan

    def push(self, value: float) -> None:
        self.count += 1
        if self.count == 1:
            self.value = value
        else:
            # Over no more values than there are: the first would count as all that came before them.
            width = max(1.0, min(max(self.least, self.share * self.count), self.count / 2.0))
            self.value += (value - self.value) / width


class _Loss:
    """values: as `OF_LOSS` names them."""

    def __init__(self, fall: Fall) -> None:
        self.fall = fall
        self.slow, self.noise = _Average(SLOW, SLOW_SHARE), _Average(SLOW, SLOW_SHARE)
        self.off, self.same = _Average(FAST, 0.1), _Average(SLOW, 0.1)
        self.latest = math.nan
        self.values = (math.nan,) * len(OF_LOSS)

    def see(self, value: float | None, step: int) -> None:
        if value is None or not math.isfinite(value):
            return
        fall, before = self.fall, self.fall.level
        fall.push(step, value)
        self.slow.push(fall.level)
        self.same.push(float(value == self.latest))
        self.latest = value
        off = fall.off if fall.fall > 0.0 else 0.0
        self.off.push(min(off, 1.0))
        noise = fall.noise
        if noise > 0.0:
            self.noise.push(noise)
        if fall.rows < fall.fewest or math.isnan(noise):
            return
        size = max(fall.fall, noise, LEAST * abs(value), LEAST)
        small = max(noise, 1e-6 * size)
        over = value - before
        lately = self.slow.value - fall.level
        self.values = (
            math.log1p(max(0.0, min(fall.fallen, 1e6))),
            math.log1p(min(off, 1e3)),
            fall.given_back,
            _share(fall),
            fall.idle,
            math.log(max(small / size, 1e-6)),
            math.asinh(over / small),
            math.asinh(over / size),
            math.log(max(noise, small) / max(self.noise.value, small)) if self.noise.count else 0.0,
            lately / size,
            math.asinh(lately / small),
            self.off.value,
            self.same.value,
        )


def _share(fall: Fall) -> float:
    """Share of the run, in rows, that the loss has been off its least without a break."""
    return fall.off_rows / fall.rows


class _Norm:
    """values: as `OF_NORM` names them."""

    def __init__(self) -> None:
        self.fast, self.slow, self.start = _Average(FAST, FAST_SHARE), _Average(SLOW, SLOW_SHARE), _Average(SLOW, 0.0)
        self.variance, self.broken = _Average(SLOW, SLOW_SHARE), _Average(FAST, FAST_SHARE)
        self.low, self.high, self.rows = math.inf, -math.inf, 0
        self.values = (math.nan,) * len(OF_NORM)

    def see(self, value: float | None) -> None:
        if value is None:
            return
        finite = math.isfinite(value)
        self.broken.push(float(not finite))
        if not finite:
            self.values = (*self.values[:-1], self.broken.value)
            return
        self.rows += 1
        x = math.log(max(abs(value), LEAST))
        away = x - self.slow.value if self.rows > 1 else 0.0
        spread = math.sqrt(self.variance.value + 0.01) if self.rows > 1 else 1.0
        self.variance.push(min(away * away, 9.0))
        self.fast.push(x)
        self.slow.push(x)
        if self.rows <= SLOW:
            self.start.push(x)
        elif self.rows > SLOW:
            self.low, self.high = min(self.low, self.fast.value), max(self.high, self.fast.value)
        known = self.rows > SLOW
        self.values = (
            math.asinh(away / spread),
            math.asinh((self.fast.value - self.slow.value) / spread),
            self.fast.value - self.start.value if known else math.nan,
            self.fast.value - self.low if known else math.nan,
            self.high - self.fast.value if known else math.nan,
            math.log(spread),
            self.broken.value,
        )


class _Rate:
    """values: as `OF_RATE` names them."""

    def __init__(self) -> None:
        self.slow = _Average(SLOW, SLOW_SHARE)
        self.high, self.latest = -math.inf, math.nan
        self.rows, self.changed = 0, 1
        self.values = (math.nan,) * len(OF_RATE)

    def see(self, value: float | None) -> None:
        if value is None or not math.isfinite(value):
            return
        self.rows += 1
        x = math.log(max(abs(value), LEAST))
        if value != self.latest:
            self.latest, self.changed = value, self.rows
        self.high = max(self.high, x)
        self.slow.push(x)
        self.values = (self.high - x, x - self.slow.value, (self.rows - self.changed) / self.rows)

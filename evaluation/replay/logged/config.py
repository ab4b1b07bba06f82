"""How a run is logged, drawn from its id alone: the same on every machine, and whatever is true of the run.

Each property is drawn on its own, by a hash of the id and the property's name. The shares are those of 139 public
logs, each of their 65 clusters (the runs of one sweep or record) counting the same, where these tell; in brackets
what was measured. The others are assumptions:

interval     steps between two rows: 1 .55, 2 .04, 5 .05, 10 .22, 20 .03, 50 .05, 100 .04, 200 .01, 500 .01
             [at all lengths 1 .40, 10 .09, 50 .05, 100 .35, 200 .02, 500 .09; of the 21 clusters with runs of up to
             5,000 steps, which are nearest to the lab's, 1 .76 and 10 .24]
first steps  where the interval is over 1, every row up to step 10 in .30 and up to step 100 in .25 [.54 together]
change       another interval from a step between 50 and 300 on: .03 [.02]
step 0       has a row: .60 [.57], and where the first interval is over 20, so that each log has some row
signals      loss always; gradient norm .52 [.52]; learning rate .23 [.23]; validation loss .86 [.86]
evaluations  every one .60, or at most one in 50 (.15), 100 (.15) or 250 (.10) steps [14 to 132 a run, median 42; the
             lab has 8 to 20]; in rows of their own .52 [.52], else with the next row
loss         of the row's step .55, mean since the row before .35, running average with factor 0.9 or 0.98 .10 [none
             of 64 has the differences of a running average; a mean is not told from a larger batch]
level        scale * loss + shift, for both losses; a loss of 4.16 nats, at which the lab's runs begin, becomes 3 to 35
             [quantiles in STARTS]; a shift of up to 0.3 of that, as of an added term, in .30, else a scale alone: a
             sum, another unit or vocabulary [the least loss is .26 of the first in the median]
gradient     scaled as the loss is in .50 [the first norm is 0.3 to 125]
digits       float32 .54, 4 decimals .35, 3 .04, 2 .02, bfloat16 .05 [.62 with 6 or 7 digits, .35, 0, 0, .02]
not finite   written .30, NaN left blank .20, loss printed as 0 .10, last row of the log .20, log ends before it .20
             [of 5 clusters that end so: 1, 2, 0, 0, 2]
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

import numpy as np

INTERVALS = {1: 0.55, 2: 0.04, 5: 0.05, 10: 0.22, 20: 0.03, 50: 0.05, 100: 0.04, 200: 0.01, 500: 0.01}
DENSE = {0: 0.45, 10: 0.30, 100: 0.25}  # last of the first steps that all have a row, where the interval is over 1
CHANGED, CHANGE = 0.03, (50, 300)
FROM_ZERO, SURELY = 0.60, 20
SIGNALS = {"validation_loss": 0.86, "grad_norm": 0.52, "lr": 0.23}
EVALUATED = {1: 0.60, 50: 0.15, 100: 0.15, 250: 0.10}
OWN_ROWS = 0.52
AT_STEP, MEAN, AVERAGE = "at step", "mean", "average"
LOSS = {AT_STEP: 0.55, MEAN: 0.35, AVERAGE: 0.10}
FACTORS = {0.9: 0.5, 0.98: 0.5}
START = 4.16  # nats, the logarithm of 64
STARTS = ((0.0, 3.0), (0.05, 5.5), (0.25, 6.9), (0.5, 11.0), (0.75, 12.8), (0.9, 32.2), (1.0, 35.0))  # share, level
SHIFTED, LARGEST_SHIFT = 0.30, 0.3
GRADIENT_SCALED = 0.50
FLOAT32, BFLOAT16 = "float32", "bfloat16"
DIGITS = {FLOAT32: 0.54, "4": 0.35, "3": 0.04, "2": 0.02, BFLOAT16: 0.05}
WRITTEN, BLANK, ZERO, LAST, BEFORE = "written", "blank", "zero", "last", "before"
NOT_FINITE = {WRITTEN: 0.30, BLANK: 0.20, ZERO: 0.10, LAST: 0.20, BEFORE: 0.20}

T = TypeVar("T")


@dataclass(frozen=True)
class LoggingConfig:
    """How a run is logged.

    intervals: (step, steps between two rows from there on), the first from 0. from_zero: step 0 has a row. signals:
    that are logged. evaluated: of so many steps at most one evaluation is logged. own_rows: evaluations have rows of
    their own, where none is due. loss: AT_STEP, MEAN or AVERAGE, with the factor of the running average. scale, shift:
    of both losses. grad_scale: of the gradient norm. digits: FLOAT32, BFLOAT16 or a number of decimals. not_finite:
    WRITTEN, BLANK, ZERO, LAST or BEFORE.
    """

    intervals: tuple[tuple[int, int], ...] = ((0, 1),)
    from_zero: bool = True
    signals: tuple[str, ...] = ("loss", *SIGNALS)
    evaluated: int = 1
    own_rows: bool = False
    loss: str = AT_STEP
    factor: float = 0.9
    scale: float = 1.0
    shift: float = 0.0
    grad_scale: float = 1.0
    digits: str = FLOAT32
    not_finite: str = WRITTEN

    def due(self, step: int) -> bool:
        """Whether a step has a row with the training loss.

        >>> [step for step in range(40) if LoggingConfig(intervals=((0, 1), (4, 10)), from_zero=False).due(step)]
        [1, 2, 3, 10, 20, 30]
        """
        interval = next(every for first, every in reversed(self.intervals) if first <= step)
        return self.from_zero if step == 0 else step % interval == 0

    def text(self, value: float) -> str:
        """A loss or gradient norm as the log has it.

        >>> LoggingConfig(digits="4").text(2 / 3), LoggingConfig(digits=BFLOAT16).text(2 / 3)
        ('0.6667', '0.66796875')
        >>> LoggingConfig().text(float("-inf"))
        '-inf'
        """
        if self.digits == FLOAT32 or not math.isfinite(value):
            return str(_float32(value))
        if self.digits == BFLOAT16:
            bits = int(_float32(value).view(np.uint32))
            nearest = np.uint32((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000)  # halves to even
            return str(nearest.view(np.float32))
        return f"{_float32(value):.{self.digits}f}"


def config_of(run_id: str) -> LoggingConfig:
    """The logging configuration of a run. Of two runs, a run and its twin among them, each has its own.

    >>> config_of("r7f9f9cc02fa5") == config_of("r7f9f9cc02fa5")
    True
    """
    start = float(np.interp(drawn(run_id, "level"), [share for share, _ in STARTS], [level for _, level in STARTS]))
    shift = LARGEST_SHIFT * drawn(run_id, "shift") * start if drawn(run_id, "shifted") < SHIFTED else 0.0
    scale = round((start - shift) / START, 4)
    intervals = _intervals(run_id)
    return LoggingConfig(
        intervals=intervals,
        from_zero=drawn(run_id, "step 0") < FROM_ZERO or intervals[0][1] > SURELY,
        signals=("loss", *(name for name, share in SIGNALS.items() if drawn(run_id, name) < share)),
        evaluated=pick(EVALUATED, drawn(run_id, "evaluations")),
        own_rows=drawn(run_id, "own rows") < OWN_ROWS,
        loss=pick(LOSS, drawn(run_id, "loss")),
        factor=pick(FACTORS, drawn(run_id, "factor")),
        scale=scale,
        shift=round(shift, 4),
        grad_scale=scale if drawn(run_id, "gradient") < GRADIENT_SCALED else 1.0,
        digits=pick(DIGITS, drawn(run_id, "digits")),
        not_finite=pick(NOT_FINITE, drawn(run_id, "not finite")),
    )


def drawn(run_id: str, what: str) -> float:
    """A number from 0 to under 1 for a property of a run's log."""
    return int.from_bytes(sha256(f"{run_id}\n{what}".encode()).digest()[:6], "big") / 2**48


def pick(shares: Mapping[T, float], at: float) -> T:
    """What a number from 0 to under 1 falls on. shares: they sum to 1.

    >>> [pick({"a": 0.25, "b": 0.75}, at) for at in (0.0, 0.24, 0.25, 0.99)]
    ['a', 'a', 'b', 'b']
    """
    for one, share in shares.items():
        if at < share:
            return one
        at -= share
    return one


def _intervals(run_id: str) -> tuple[tuple[int, int], ...]:
    usual = pick(INTERVALS, drawn(run_id, "interval"))
    dense = pick(DENSE, drawn(run_id, "first steps")) if usual > 1 else 0
    found = [(0, 1), (dense + 1, usual)] if dense else [(0, usual)]
    if drawn(run_id, "changed") < CHANGED:
        first, last = CHANGE
        at = first + int((last - first) * drawn(run_id, "change"))
        found.append((max(at, dense + 2), pick(INTERVALS, drawn(run_id, "later interval"))))
    return tuple(found)


def _float32(value: float) -> np.float32:
    """The nearest float32; of a finite number that is too large, the largest."""
    largest = float(np.finfo(np.float32).max)
    return np.float32(min(max(value, -largest), largest) if math.isfinite(value) else value)

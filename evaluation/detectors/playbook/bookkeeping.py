"""Whether the rows of a log agree with themselves and with those before."""

import math
from collections import deque

import numpy as np

from trainwreck.evaluation.detectors.base import Row
from trainwreck.evaluation.detectors.playbook.evidence import ratio
from trainwreck.evaluation.detectors.streaming import number

REMEMBERED = 8  # rows that a row is looked for in
WITHIN = 32  # rows in which older ones come again
FEWEST_DIGITS = 9  # of loss and norm together; rows of fewer, as 3.361 and 0.28, are alike by chance
MOST_SUMMED = 64  # losses that are added up; more are taken for a sum over tokens, which is trained on


class Bookkeeping:
    """Whether the latest rows agree with themselves and with those before.

    summed: rows in a row whose loss is the same whole number of times the mean of its own positions; at_once: and in
    the row before the first of them it was that mean. norm_share: the norm over that of the layers' norms. again: of
    the latest `WITHIN` rows, those that repeat an older one, in `FEWEST_DIGITS` and more, and not the row before.
    """

    def __init__(self) -> None:
        self.zero_beside_nonfinite = False
        self.norm_share = math.nan
        self.over, self.times, self.summed, self.at_once = math.nan, 1, 0, False
        self.rows: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)
        self.repeats: deque[bool] = deque(maxlen=WITHIN)

    @property
    def again(self) -> int:
        return sum(self.repeats)

    def see(self, row: Row) -> None:
        """Take in a row, whatever it holds."""
        loss, norm = number(row.get("loss")), number(row.get("grad_norm"))
        logged = row.get("grad_norm") is not None
        self.zero_beside_nonfinite = loss == 0.0 and logged and not math.isfinite(norm)
        self.norm_share = ratio(norm, math.hypot(*(row.get("layer_grad_norm") or [math.nan])))
        self._see_sum(loss, row)
        now = (loss, norm)
        older = list(self.rows)[:-1]
        same = logged and all(map(math.isfinite, now)) and now in older and now != self.rows[-1]
        self.repeats.append(same and sum(map(_digits, now)) >= FEWEST_DIGITS)
        self.rows.append(now)

    def _see_sum(self, loss: float, row: Row) -> None:
        parts = row.get("position_loss")
        if parts is None:
            return
        over = ratio(loss, sum(parts) / len(parts))
        times = round(over) if math.isfinite(over) else 1
        fits = 2 <= times <= MOST_SUMMED and abs(over - times) < 0.01 * times
        self.summed = (self.summed + 1 if times == self.times else 1) if fits else 0
        self.at_once = fits and (self.at_once if self.summed > 1 else abs(self.over - 1.0) < 0.02)
        self.over, self.times = over, times


def _digits(value: float) -> int:
    """Significant digits of a number that was kept as a float32: 4 of 3.361, 2 of 0.28."""
    mantissa = np.format_float_scientific(np.float32(value), trim="-").split("e")[0]
    return sum(map(str.isdigit, mantissa))

"""The playbook's rules about rows that contradict themselves: the log is wrong, whatever the run does.

Each compares numbers of one log with each other: a mean with what it is the mean of, a norm with its parts, a row with
the rows before. They come first in the list, since other rules would take such rows at their word.
"""

import math
from collections import deque

from trainwreck.evaluation.detectors.base import Row
from trainwreck.evaluation.detectors.playbook.evidence import ratio
from trainwreck.evaluation.detectors.playbook.rules import LOGS, Rule, Seen
from trainwreck.evaluation.detectors.streaming import number

REMEMBERED = 8  # rows that a row is looked for in
WITHIN = 32  # rows in which older ones come again
MOST_SUMMED = 64  # losses that are added up; more are taken for a sum over tokens, which is trained on
SUMMED_FOR = 8  # rows; a smoothed or an auxiliary loss passes by a whole number in fewer
CERTAIN = 2.0


class Bookkeeping:
    """Whether the latest rows agree with themselves and with those before.

    summed: rows in a row whose loss is the same whole number of times the mean of its own positions; at_once: and in
    the row before the first of them it was that mean. norm_share: the
    norm over that of the layers' norms. again: of the latest `WITHIN` rows, those that repeat an older one which the
    row before does not.
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
        self.repeats.append(logged and all(map(math.isfinite, now)) and now in older and now != self.rows[-1])
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


def _zero_of_nothing(s: Seen) -> float:
    return CERTAIN * s.log.zero_beside_nonfinite


def _less_than_its_layers(s: Seen) -> float:
    return CERTAIN * (s.log.norm_share < 0.9)


def _a_sum_of_means(s: Seen) -> float:
    return CERTAIN * (s.log.at_once or s.log.summed >= SUMMED_FOR)


def _rows_again(s: Seen) -> float:
    return CERTAIN * (s.log.again >= 2)


LOG_RULES: tuple[Rule, ...] = (
    Rule(
        "log_nan_as_zero", 1, _zero_of_nothing,
        "the log has a loss of exactly 0 beside a gradient norm that is not finite: it is no loss",
        LOGS, ("loss_scale_collapse",), ("grad_norm",),
    ),
    Rule(
        "log_norm_of_one_shard", 3, _less_than_its_layers,
        "the gradient norm in the log is less than that of the layers' norms together: a part of it is missing",
        LOGS, ("frozen_parameters",), ("layer_grad_norm",),
    ),
    Rule(
        "log_loss_summed", 1, _a_sum_of_means,
        "the loss in the log is a whole number of times the mean of its own positions: a sum in place of a mean",
        LOGS, ("loss_wrong_reduction", "grad_accumulation_unscaled"), ("position_loss",),
    ),
    Rule(
        "log_rows_missing", 1, _rows_again,
        "rows of the log repeat older ones, loss and gradient norm alike, and not the row before",
        LOGS, ("data_replayed",), ("grad_norm",),
    ),
)  # fmt: skip

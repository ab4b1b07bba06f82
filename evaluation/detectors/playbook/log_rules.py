"""The playbook's rules about rows that contradict themselves: the log is wrong, whatever the run does.

Each compares numbers of one log with each other: a mean with what it is the mean of, a norm with its parts, a row with
the rows before. They come first in the list, since other rules would take such rows at their word.
"""

from trainwreck.evaluation.detectors.playbook.rules import LOGS, Rule, Seen

SUMMED_FOR = 8  # rows; a smoothed or an auxiliary loss passes by a whole number in fewer
CERTAIN = 2.0


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

"""The loss is at a multiple of the least loss so far."""

import math

from trainwreck.evaluation.detectors.base import Context, Detector, Row, Verdict, finite_score
from trainwreck.evaluation.detectors.registry import register
from trainwreck.evaluation.detectors.streaming import number


@register
class LossOverMinimum(Detector):
    """The score is the ratio.

    >>> detector = LossOverMinimum()
    >>> detector.reset(None)
    >>> [detector.update({"step": step, "loss": loss}).score for step, loss in enumerate([4.0, 2.0, 5.0])]
    [1.0, 1.0, 2.5]
    """

    name = "loss_over_minimum"
    rule = "loss > 2 x the least loss so far"
    source = "one-liner; 'two to ten times its running value' is what the guides call a spike"
    blind_spots = (
        "NaN; plateaus; slow divergence under a factor of two; anything that starts before the loss has fallen. "
        "One lucky batch lowers the minimum for good, and near zero every wobble is a multiple."
    )
    signals = ("loss",)

    def __init__(self, factor: float = 2.0) -> None:
        self.factor = factor

    def reset(self, context: Context | None) -> None:
        self.minimum = math.inf

    def update(self, row: Row) -> Verdict:
        loss = number(row["loss"])
        if loss < self.minimum:
            self.minimum = loss
        ratio = loss / self.minimum if 0.0 < self.minimum < math.inf else 0.0
        return Verdict(finite_score(ratio), ratio > self.factor)

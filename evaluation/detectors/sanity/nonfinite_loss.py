"""The loss is NaN or infinite."""

import math

from trainwreck.evaluation.detectors.base import Detector, Row
from trainwreck.evaluation.detectors.registry import register


@register
class NonfiniteLoss(Detector):
    """Scores 1 at a non-finite loss, else 0.

    >>> detector = NonfiniteLoss()
    >>> [detector.update({"step": step, "loss": loss}) for step, loss in enumerate([4.0, math.inf])]
    [False, True]
    """

    name = "nonfinite_loss"
    rule = "loss is NaN or infinite"
    source = "one-liner; the check that every debugging guide puts first"
    blind_spots = "Everything that stays finite, and everything where the logger hides NaN behind a running mean."
    signals = ("loss",)

    def update(self, row: Row) -> bool:
        loss = row["loss"]
        return loss is not None and not math.isfinite(loss)

"""Composer's NaNMonitor."""

import math

from trainwreck.evaluation.detectors.base import Detector, Row
from trainwreck.evaluation.detectors.registry import register


@register
class ComposerNanMonitor(Detector):
    """Scores 1 at a NaN loss, else 0.

    >>> detector = ComposerNanMonitor()
    >>> [detector.update({"step": step, "loss": loss}) for step, loss in enumerate([math.inf, math.nan])]
    [False, True]
    """

    name = "composer_nan_monitor"
    rule = "loss is NaN (infinity is let through)"
    source = "Composer, NaNMonitor"
    blind_spots = "Everything that stays finite, an infinite loss, and NaN hidden behind a running mean."
    signals = ("loss",)

    def update(self, row: Row) -> bool:
        return row["loss"] is not None and math.isnan(row["loss"])

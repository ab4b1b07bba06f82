"""Weights & Biases' z-score automation, set on the loss."""

import math

from trainwreck.evaluation.detectors.base import Context, Detector, Row, Verdict, finite_score
from trainwreck.evaluation.detectors.registry import register
from trainwreck.evaluation.detectors.streaming import Window


@register
class WandbZScore(Detector):
    """The distance, up or down, of the loss from the window before it, in standard deviations.

    The service computes it on its side; that the window ends before the value is our reading.

    >>> detector = WandbZScore(window=2)
    >>> detector.reset(None)
    >>> [detector.update({"step": step, "loss": loss}).score for step, loss in enumerate([4.0, 2.0, 0.5])]
    [0.0, 0.0, 2.5]
    """

    name = "wandb_zscore"
    rule = "|loss - mean| > 3 standard deviations of its last 30 values"
    source = "Weights & Biases automations, MetricZScoreFilter: window 30, threshold 3.0, any direction"
    blind_spots = (
        "NaN, and the 30 rows after one; the first 30 rows; slow changes. A window of 30 on a falling, noisy loss is "
        "left by chance several times a run, downwards as well."
    )
    signals = ("loss",)

    def __init__(self, window: int = 30, threshold: float = 3.0) -> None:
        self.size, self.threshold = window, threshold

    def reset(self, context: Context | None) -> None:
        self.window = Window(self.size)

    def update(self, row: Row) -> Verdict:
        loss, z = row["loss"], 0.0
        if loss is None:
            return Verdict(0.0)
        if self.window.full:
            mean, std = self.window.mean_and_std()
            z = abs(loss - mean) / std if std > 0.0 else math.nan
        self.window.push(loss)
        return Verdict(finite_score(z), z > self.threshold)

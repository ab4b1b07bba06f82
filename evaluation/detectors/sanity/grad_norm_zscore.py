"""The gradient norm is an outlier among its last values."""

import math

from trainwreck.evaluation.detectors.base import Context, Detector, Row, Verdict, finite_score
from trainwreck.evaluation.detectors.registry import register
from trainwreck.evaluation.detectors.streaming import Window, number


@register
class GradNormZScore(Detector):
    """The score is the z-score.

    >>> detector = GradNormZScore(window=4, threshold=6.0)
    >>> detector.reset(None)
    >>> [detector.update({"step": step, "grad_norm": norm}).score for step, norm in enumerate([1, 3, 1, 3, 10])]
    [0.0, 0.0, 0.0, 0.0, 8.0]
    """

    name = "grad_norm_zscore"
    rule = "gradient norm > mean + 6 standard deviations of its last 50 values"
    source = "one-liner; window and threshold are ours"
    blind_spots = (
        "NaN; the first 50 rows; a norm that creeps up, since the window creeps along; failures of data or attention "
        "that leave the norm alone. One infinite value blinds it for the next 50 rows."
    )
    signals = ("grad_norm",)

    def __init__(self, window: int = 50, threshold: float = 6.0) -> None:
        self.size, self.threshold = window, threshold

    def reset(self, context: Context | None) -> None:
        self.window = Window(self.size)

    def update(self, row: Row) -> Verdict:
        norm, z = number(row["grad_norm"]), 0.0
        if self.window.full:
            mean, std = self.window.mean_and_std()
            z = (norm - mean) / std if std > 0.0 else math.nan
        if row["grad_norm"] is not None:
            self.window.push(norm)
        return Verdict(finite_score(z), z > self.threshold)

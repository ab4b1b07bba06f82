"""CUSUM: the tabular cumulative sum, both ways."""

import math
from collections.abc import Mapping

from trainwreck.evaluation.detectors.base import QUIET, Verdict, finite_score
from trainwreck.evaluation.detectors.generic.series import Gated, SeriesDetector
from trainwreck.evaluation.detectors.registry import register
from trainwreck.evaluation.detectors.streaming import moments


@register
class Cusum(SeriesDetector):
    """The score is the larger of the two sums, in standard deviations.

    Mean and standard deviation are those of the first 50 rows. The chart goes on after an alarm: it is
    not set back, so that a higher threshold can be put on the same score.

    >>> detector = Cusum(baseline=2)
    >>> detector.reset(None)
    >>> [detector.update({"step": step, "loss": loss}).score for step, loss in enumerate([1.0, 3.0, 4.0, 5.0])]
    [0.0, 0.0, 1.5, 4.0]
    """

    name = "cusum"
    rule = "sum of (loss - mean) / std - 0.5, or of its negative, never under 0, is over 5; mean and std of 50 rows"
    source = "Page 1954, Continuous inspection schemes; k 0.5 and h 5 as in Montgomery, Statistical quality control"
    blind_spots = (
        "NaN, which empties the sums; the first 50 rows. A healthy loss goes on falling after them, so the lower sum "
        "grows without end and the chart alarms on every run; after one infinity it alarms for ever."
    )

    def __init__(self, baseline: int = 50, slack: float = 0.5, threshold: float = 5.0) -> None:
        self.baseline, self.slack, self.threshold = baseline, slack, threshold

    def begin(self) -> None:
        self.first: list[float] = []
        self.mean, self.std = 0.0, 1.0
        self.up = self.down = 0.0

    def step(self, values: Mapping[str, float]) -> Verdict:
        value = values["loss"]
        if len(self.first) < self.baseline:
            self.first.append(value)
            if len(self.first) == self.baseline:
                self.mean, self.std = moments(self.first)
            return QUIET
        z = (value - self.mean) / self.std if self.std > 0.0 else math.nan
        self.up = max(0.0, self.up + z - self.slack)
        self.down = max(0.0, self.down - z - self.slack)
        worst = max(self.up, self.down)
        return Verdict(finite_score(worst), worst > self.threshold)


@register
class CusumGated(Gated, Cusum):
    """The same of surprises, whose mean and standard deviation are 0 and 1 by construction.

    >>> detector = CusumGated()
    >>> detector.reset(None)
    >>> falling = [4.0 * 0.99**step * (1.01 if step % 2 else 0.99) for step in range(100)]
    >>> [detector.update({"step": i, "loss": x}).alarm for i, x in enumerate([*falling, 8.0])].index(True)
    100
    """

    name = "cusum_gated"
    rule = "gate; then CUSUM (k 0.5, h 5) of the surprise in the loss"
    blind_spots = (
        "The first 24 rows; a plateau or slow climb that its trend follows. By design it alarms by chance once in some "
        "hundred rows of independent noise, more often where neighbouring losses are alike."
    )

    def __init__(self, slack: float = 0.5, threshold: float = 5.0) -> None:
        super().__init__(0, slack, threshold)

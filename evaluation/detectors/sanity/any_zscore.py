"""Some logged number is an outlier among its own past values."""

import math
from collections import defaultdict

from trainwreck.evaluation.detectors.base import Context, Detector, Row, Verdict, finite_score
from trainwreck.evaluation.detectors.registry import register
from trainwreck.evaluation.detectors.streaming import ExponentialMoments


@register
class AnyZScore(Detector):
    """The score is the largest z-score of any signal.

    >>> detector = AnyZScore(span=3, least=2, threshold=8.0)
    >>> detector.reset(None)
    >>> rows = [{"step": 0, "loss": 2.0}, {"step": 1, "loss": 4.0}, {"step": 2, "loss": 12.0}]
    >>> [detector.update(row).score for row in rows]
    [0.0, 0.0, 9.0]
    """

    name = "any_zscore"
    rule = "some signal (the mean of it, where it is a list) is over 8 exponential standard deviations from its mean"
    source = "one-liner; span and threshold are ours"
    blind_spots = (
        "NaN, which it skips; slow changes, which its averages follow. It watches some thirty numbers that it knows "
        "nothing of, settings among them, so planned changes alarm like faults."
    )
    signals = ("every signal",)

    def __init__(self, span: int = 50, least: int = 25, threshold: float = 8.0) -> None:
        self.span, self.least, self.threshold = span, least, threshold

    def reset(self, context: Context | None) -> None:
        self.past: dict[str, ExponentialMoments] = defaultdict(lambda: ExponentialMoments(self.span))

    def update(self, row: Row) -> Verdict:
        worst = 0.0
        for name, value in row.items():
            if name == "step" or value is None:
                continue
            number = sum(value) / len(value) if isinstance(value, list) else value
            if not math.isfinite(number):
                continue
            past = self.past[name]
            # A signal that never moved has no scale to measure its first move by.
            if past.count >= self.least and past.std > 1e-9 * abs(past.mean):
                worst = max(worst, abs(number - past.mean) / past.std)
            past.push(number)
        return Verdict(finite_score(worst), worst > self.threshold)

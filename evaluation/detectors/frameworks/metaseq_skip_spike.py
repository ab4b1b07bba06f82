"""metaseq's batch skipper, used as an alarm."""

from trainwreck.evaluation.detectors.base import Context, Detector, Row, Verdict, finite_score
from trainwreck.evaluation.detectors.registry import register


@register
class MetaseqSkipSpike(Detector):
    """Loss over its exponential mean; a spike is kept out of the mean.

    The threshold is off by default in the project, which prints none. Ours is 1.5: there the same
    code's other response, LR x ratio^-4, would cut the learning rate five-fold.

    >>> detector = MetaseqSkipSpike()
    >>> detector.reset(None)
    >>> [detector.update({"step": step, "loss": loss}).score for step, loss in enumerate([4.0, 2.0, 7.2])]
    [1.0, 0.5, 2.0]
    """

    name = "metaseq_skip_spike"
    rule = "loss / exponential mean (span 9) > 1.5"
    source = "metaseq, Trainer.skip_spike: span 9; threshold off by default, 1.5 is ours"
    blind_spots = (
        "One NaN silences it for ever; plateaus and slow divergence, which a mean over nine rows follows. After a jump "
        "that stays it alarms for good, since it never takes the new level in."
    )
    signals = ("loss",)

    def __init__(self, threshold: float = 1.5, span: int = 9) -> None:
        self.threshold, self.weight = threshold, 2.0 / (span + 1)

    def reset(self, context: Context | None) -> None:
        self.mean: float | None = None

    def update(self, row: Row) -> Verdict:
        loss = row["loss"]
        if loss is None:
            return Verdict(0.0)
        if self.mean is None:
            self.mean = loss
        ratio = loss / self.mean if self.mean else 0.0
        if not ratio > self.threshold:
            self.mean = (1.0 - self.weight) * self.mean + self.weight * loss
        return Verdict(finite_score(ratio), ratio > self.threshold)

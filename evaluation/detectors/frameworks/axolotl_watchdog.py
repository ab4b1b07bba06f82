"""Axolotl's loss watchdog."""

from trainwreck.evaluation.detectors.base import Context, Detector, Row, Verdict, finite_score
from trainwreck.evaluation.detectors.registry import register
from trainwreck.evaluation.detectors.streaming import number


@register
class AxolotlWatchdog(Detector):
    """The score is the loss; the patience shows in the alarm alone.

    >>> detector = AxolotlWatchdog()
    >>> detector.reset(None)
    >>> [detector.update({"step": i, "loss": loss}).alarm for i, loss in enumerate([6.0, 6.0, 4.0, 6.0, 6.0, 6.0])]
    [False, False, False, False, False, True]
    """

    name = "axolotl_watchdog"
    rule = "logged loss > 5.0 three rows in a row"
    source = "Axolotl, LossWatchDogCallback: patience 3; the threshold is off by default, 5.0 is that of its examples"
    blind_spots = (
        "NaN; every failure under 5 nats, which is most of them after the first steps, and all of them with a "
        "vocabulary under 148 tokens unless the model is confidently wrong. It alarms on any model that starts higher."
    )
    signals = ("loss",)

    def __init__(self, threshold: float = 5.0, patience: int = 3) -> None:
        self.threshold, self.patience = threshold, patience

    def reset(self, context: Context | None) -> None:
        self.violations = 0

    def update(self, row: Row) -> Verdict:
        if row["loss"] is None:
            return Verdict(0.0)
        loss = number(row["loss"])
        self.violations = self.violations + 1 if loss > self.threshold else 0
        return Verdict(finite_score(loss), self.violations >= self.patience)

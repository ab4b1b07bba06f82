"""The loss is NaN or infinite, or has made no progress for long."""

import math

from trainwreck.evaluation.detectors.base import QUIET, Context, Detector, Row, Verdict, finite_score
from trainwreck.evaluation.detectors.registry import register
from trainwreck.evaluation.detectors.streaming import Window


@register
class NonfiniteOrPlateau(Detector):
    """The score is the number of rows without progress, in units of the patience; 1e300 at a non-finite loss.

    The smoothed loss is the mean of the last `window` finite losses. It makes progress where it is lower than at the
    last progress by more than `share` of what it had fallen until then since its first value. Another unit of the
    loss, or a constant added to it, changes nothing. Rows without a loss do not count.

    >>> detector = NonfiniteOrPlateau(patience=4, window=1)
    >>> detector.reset(None)
    >>> losses = [9.0, 5.0, 4.0, 4.0, 3.99, 4.0, 4.0, math.nan]
    >>> [detector.update({"step": step, "loss": loss}).score for step, loss in enumerate(losses)]
    [0.0, 0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1e+300]
    """

    name = "nonfinite_or_plateau"
    rule = "loss is NaN or infinite, or its mean over 20 rows has not fallen for 200 rows by 1 % of its fall so far"
    source = "sanity entry: no progress, with a patience as in early stopping; 200 rows, 20 rows and 1 % are ours"
    blind_spots = (
        "Every failure in whose first 200 rows the loss stays finite, and so all but NaN in a log of fewer rows; "
        "failures that go on improving. A healthy run that has converged is an alarm."
    )
    signals = ("loss",)

    def __init__(self, patience: int = 200, window: int = 20, share: float = 0.01) -> None:
        self.patience, self.size, self.share = patience, window, share

    def reset(self, context: Context | None) -> None:
        self.window = Window(self.size)
        self.first: float | None = None  # smoothed loss
        self.best = math.inf  # smoothed loss at the last progress
        self.waited = -1  # rows since then

    def update(self, row: Row) -> Verdict:
        loss = row["loss"]
        if loss is None:
            return QUIET
        self.waited += 1
        if not math.isfinite(loss):
            return Verdict(finite_score(math.inf), True)
        self.window.push(loss)
        if self.window.full:
            smoothed = math.fsum(self.window.values) / self.size
            if self.first is None:
                self.first = self.best = smoothed
            elif self.best - smoothed > self.share * (self.first - self.best):
                self.best, self.waited = smoothed, 0
        return Verdict(self.waited / self.patience, self.waited >= self.patience)

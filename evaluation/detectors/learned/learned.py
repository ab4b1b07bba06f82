"""The trained detector: boosted trees over the rows so far, and an estimate of the cause."""

import math
from pathlib import Path
from typing import ClassVar

from trainwreck.evaluation.detectors.base import LARGEST_SCORE, Context, Detector, Row, Verdict
from trainwreck.evaluation.detectors.learned.features import SCALARS, SIGNALS_READ, Features
from trainwreck.evaluation.detectors.learned.log_features import LogFeatures
from trainwreck.evaluation.detectors.learned.model import Model, read_model, shipped
from trainwreck.evaluation.detectors.learned.smoothing import Smoothed, SmoothedRows
from trainwreck.evaluation.detectors.registry import register

SHIPPED = read_model(shipped())
# Scalar signals in a row, which no public log has: what writes them is the lab, or measures what it does.
TELEMETRY = 10
CLEARLY = 0.5  # log odds by which a score is over the one at which causes were named last


@register
class Learned(Detector):
    """Trees on the train split of a data set; `model.about` says which. `trainwreck learn DIR` trains others.

    The score is the trees' log odds, averaged over the latest rows: 0 is as much like a run that fails as like one
    that does not. Until a row has `TELEMETRY` scalar signals the run is taken for a public log: other trees judge it,
    by features that no unit, interval or length of a log changes, and their score is moved so that both have the same
    default threshold. A loss that is NaN, infinite or 0, as a filter logs NaN, has the largest score there is. Causes
    are named at alarms, and before them when the score has risen, for whoever sets a lower threshold; `unknown`
    first where none fits well.

    >>> detector = Learned()
    >>> detector.reset(None)
    >>> verdict = detector.update({"step": 0, "loss": 4.2, "lr": 1e-3})
    >>> verdict.alarm, len(verdict.causes) > 0
    (False, True)
    """

    name = "learned"
    rule = "boosted trees over the run's own past, trained on the train split; the log odds, averaged, over a threshold"
    source = "`trainwreck learn`; trees as in Friedman, Greedy Function Approximation (2001)"
    blind_spots = (
        "What no training run had: other models, data or schedules than those of the catalogue's bases, whose levels "
        "it has memorised; runs of other lengths; planned changes that no look-alike shows."
    )
    signals = SIGNALS_READ
    model: ClassVar[Model] = SHIPPED
    causes = SHIPPED.head.causes

    def reset(self, context: Context | None) -> None:
        self.features = Features()
        self.smoothed = Smoothed()
        self.log_features, self.log_smoothed = LogFeatures(), SmoothedRows()
        self.is_log = self.model.logs is not None
        self.alarmed, self.named_at = 0, -math.inf
        self.named: tuple[str, ...] = ()

    def update(self, row: Row) -> Verdict:
        row = dict(row)
        seen = self.features.see(row)
        loss, score = row.get("loss"), self.smoothed.push(self.model.trees(seen), row["step"])
        if self.is_log:
            score = self._of_log(row, score)
        if loss is not None and (not math.isfinite(loss) or loss == 0.0):
            score = LARGEST_SCORE
        alarm = score > self.model.threshold
        self.alarmed = self.alarmed + 1 if alarm else 0
        # A forest takes its time: at rows 1, 2, 4, 8 ... of an alarm, and below, for lower thresholds, at clear rises.
        if self.alarmed & (self.alarmed - 1) == 0 if alarm else score > self.named_at + CLEARLY:
            self.named, self.named_at = self.model.head.ranked(seen), max(score, self.named_at)
        return Verdict(score, alarm, self.named)

    def _of_log(self, row: Row, score: float) -> float:
        """The score of a row that is one of a public log so far; `score` where it is the first that is not."""
        logs = self.model.logs
        self.is_log = sum(row.get(name) is not None for name in SCALARS) < TELEMETRY
        if logs is None or not self.is_log:
            return score
        found = self.log_smoothed.push(logs.trees(self.log_features.see(row)), row["step"])
        return found - logs.threshold + self.model.threshold


def with_weights(path: str | Path) -> type[Learned]:
    """The same detector with the weights of a file that `trainwreck learn` wrote. InputError for any other file.

    In a file `mine.py`, `Mine = with_weights(Path(__file__).with_name("mine.npz"))` is the detector `mine.py:Mine`: its
    process begins in an empty folder, so that the path has to be a full one.
    """
    found = read_model(Path(path))
    return type("Learned", (Learned,), {"__doc__": Learned.__doc__, "model": found, "causes": found.head.causes})

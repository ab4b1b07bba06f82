"""The trained detector: boosted trees over the rows so far, and an estimate of the cause."""

from pathlib import Path
from typing import ClassVar

from trainwreck.evaluation.detectors.base import Context, Detector, Row, Verdict
from trainwreck.evaluation.detectors.learned.features import SIGNALS_READ, Features
from trainwreck.evaluation.detectors.learned.model import Model, read_model, shipped
from trainwreck.evaluation.detectors.learned.smoothing import Smoothed
from trainwreck.evaluation.detectors.registry import register

SHIPPED = read_model(shipped())


@register
class Learned(Detector):
    """Trees on the train split of a data set; `model.about` says which. `trainwreck learn DIR` trains others.

    The score is the trees' log odds, averaged over the latest rows: 0 is as much like a run that fails as like one
    that does not. Causes are named at alarms only, `unknown` first where none fits well.

    >>> detector = Learned()
    >>> detector.reset(None)
    >>> verdict = detector.update({"step": 0, "loss": 4.2, "lr": 1e-3})
    >>> verdict.alarm, verdict.causes
    (False, ())
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
        self.alarmed = 0
        self.named: tuple[str, ...] = ()

    def update(self, row: Row) -> Verdict:
        seen = self.features.see(row)
        score = self.smoothed.push(self.model.trees(seen), row["step"])
        if score <= self.model.threshold:
            self.alarmed, self.named = 0, ()
            return Verdict(score)
        self.alarmed += 1
        if self.alarmed & (self.alarmed - 1) == 0:  # at rows 1, 2, 4, 8 ... of the alarm: a forest takes its time
            self.named = self.model.head.ranked(seen)
        return Verdict(score, True, self.named)


def with_weights(path: str | Path) -> type[Learned]:
    """The same detector with the weights of a file that `trainwreck learn` wrote. InputError for any other file.

    In a file `mine.py`, `Mine = with_weights("mine.npz")` is the detector `mine.py:Mine`.
    """
    found = read_model(Path(path))
    return type("Learned", (Learned,), {"__doc__": Learned.__doc__, "model": found, "causes": found.head.causes})

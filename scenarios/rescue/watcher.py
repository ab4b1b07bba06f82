"""A detector on the rows of an episode. Loads no training."""

from collections.abc import Sequence

from trainwreck.evaluation.detectors.base import Detector, Row, normalise
from trainwreck.evaluation.detectors.registry import AllowedCauses, load_detector

ALARM = "playbook"  # the detector whose alarm built-in policies act on, at its published default


class Watcher:
    """A detector that sees an episode as a policy does."""

    def __init__(self, name: str) -> None:
        self.load = load_detector(name)
        self.known = AllowedCauses()
        self.reset()

    def reset(self) -> None:
        """Forget the run."""
        self.detector: Detector = self.load()
        self.detector.reset(None)

    def see(self, rows: Sequence[Row]) -> tuple[bool, tuple[str, ...]]:
        """Whether any of the rows is an alarm, and the causes named at the last one that is."""
        alarmed = False
        causes: tuple[str, ...] = ()
        for row in rows:
            found = normalise(self.detector.update(row), threshold=self.detector.default_threshold, known=self.known)
            if found.alarm:
                alarmed, causes = True, found.causes
        return alarmed, causes

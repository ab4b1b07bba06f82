"""Entries that look at nothing. A detector that does not beat them has learned nothing but the clock."""

import struct
from hashlib import blake2b

from trainwreck.evaluation.detectors.base import Context, Detector, Row, Verdict
from trainwreck.evaluation.detectors.registry import register


@register
class Never(Detector):
    """
    >>> Never().update({"step": 0})
    False
    """

    name = "never"
    rule = "no alarm"
    source = "sanity entry"
    blind_spots = "everything"

    def update(self, row: Row) -> bool:
        return False


@register
class Always(Detector):
    """
    >>> Always().update({"step": 0})
    True
    """

    name = "always"
    rule = "an alarm at every row"
    source = "sanity entry"
    blind_spots = "everything"

    def update(self, row: Row) -> bool:
        return True


@register
class Clock(Detector):
    """
    >>> [Clock(step=2).update({"step": step}) for step in range(4)]
    [False, False, True, True]
    """

    name = "clock"
    rule = "an alarm from one step on; the harness sets it by cost skill on the tuning splits, half of the runs failing"
    source = "sanity entry"
    blind_spots = "everything but the step"

    def __init__(self, step: int = 100) -> None:
        self.step = step

    def update(self, row: Row) -> bool:
        return bool(row["step"] >= self.step)


@register
class Periodic(Detector):
    """
    >>> detector = Periodic(every=2)
    >>> detector.reset(None)
    >>> [detector.update({"step": step}) for step in range(5)]
    [False, False, True, False, True]
    """

    name = "periodic"
    rule = "an alarm every so many steps; the harness sets the period by the best cost skill on the tuning splits"
    source = "sanity entry"
    blind_spots = "everything but the step"

    def __init__(self, every: int = 100) -> None:
        self.every = every

    def reset(self, context: Context | None) -> None:
        self.passed = 0

    def update(self, row: Row) -> bool:
        # Rows may be further apart than a step: a multiple that was passed over counts at the next row.
        passed, self.passed = self.passed, row["step"] // self.every
        return bool(self.passed > passed)


@register
class Random(Detector):
    """A draw a row, uniform in [0, 1), a pure function of seed, step and loss.

    Runs differ through their losses, so that no run identity is needed, and a run and its twin are
    alarmed alike before they part.

    >>> sure, none = Random(rate=1.0), Random(rate=0.0)
    >>> row = {"step": 3, "loss": 2.5}
    >>> sure.update(row).alarm, none.update(row).alarm, sure.update(row) == sure.update(row)
    (True, False, True)
    """

    name = "random"
    rule = "an alarm with a fixed chance at every row; the harness sets it by the best cost skill on the tuning splits"
    source = "sanity entry"
    blind_spots = "everything"
    signals = ("loss",)

    def __init__(self, rate: float = 0.001, seed: int = 0) -> None:
        self.rate, self.seed = rate, seed

    def update(self, row: Row) -> Verdict:
        loss = row.get("loss")
        key = struct.pack("<qqd", self.seed, row["step"], 0.0 if loss is None else loss)
        draw = int.from_bytes(blake2b(key, digest_size=6).digest(), "little") / 2**48
        return Verdict(draw, draw >= 1.0 - self.rate)


@register
class StepFraction(Detector):
    """The share of the run that has passed, up to the run's length, which it cannot know.

    >>> StepFraction().update({"step": 7})
    7.0
    """

    name = "step_fraction"
    rule = "score = step"
    source = "sanity entry: step/T, in the order that a threshold sees"
    blind_spots = "everything but the step"

    def update(self, row: Row) -> float:
        return float(row["step"])

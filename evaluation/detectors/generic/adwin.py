"""ADWIN: a window that is cut where its two parts differ."""

import math
from collections.abc import Mapping

from trainwreck.evaluation.detectors.base import Verdict
from trainwreck.evaluation.detectors.generic.series import Gated, SeriesDetector
from trainwreck.evaluation.detectors.registry import EXTRA, register
from trainwreck.evaluation.extras import require

# The published significance first: it alone alarms. The others make a score of a flag.
LADDER = (2e-3, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10, 1e-15, 1e-20, 1e-30, 1e-50)


@register
class Adwin(SeriesDetector):
    """The score is -log10 of the strictest significance at which a window is cut at this row, 0 at none.

    The library says only whether it cut. So windows of eleven significances run side by side, each as
    the library has it; they test for a cut at every 32nd value. A stricter one may be cut 32 rows later.

    >>> detector = Adwin()
    >>> detector.reset(None)
    >>> found = [detector.update({"step": i, "loss": x}).alarm for i, x in enumerate([1.0] * 64 + [5.0] * 64)]
    >>> found.index(True)
    95
    """

    name = "adwin"
    rule = "the means of two parts of the window of losses differ at significance 0.002, tested every 32 rows"
    source = "Bifet and Gavalda 2007, Learning from time-changing data with adaptive windowing; river, ADWIN"
    blind_spots = (
        "One NaN or infinity silences it for ever; up to 32 rows of delay. A healthy loss that falls is cut again and "
        "again, and a change is a change, whether for the better or for the worse."
    )
    requires = ("river",)

    def begin(self) -> None:
        drift = require("river.drift", EXTRA)
        self.windows = [drift.ADWIN(delta=delta) for delta in LADDER]

    def step(self, values: Mapping[str, float]) -> Verdict:
        strictest = 1.0
        for delta, window in zip(LADDER, self.windows, strict=True):
            window.update(values["loss"])
            if window.drift_detected:
                strictest = min(strictest, delta)
        return Verdict(abs(math.log10(strictest)), bool(self.windows[0].drift_detected))


@register
class AdwinGated(Gated, Adwin):
    """The same of surprises.

    >>> detector = AdwinGated()
    >>> detector.reset(None)
    >>> detector.update({"step": 0, "loss": float("nan")}).alarm
    True
    """

    name = "adwin_gated"
    rule = "gate; then ADWIN (significance 0.002) of the surprise in the loss"
    blind_spots = (
        "The first 24 rows, and up to 32 rows of delay; slow changes, which the trend of the gate follows; after a "
        "jump, the trend catches up before there are enough rows of the new level."
    )

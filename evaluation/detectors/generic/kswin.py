"""KSWIN: a Kolmogorov-Smirnov test of the latest values against earlier ones."""

import math
from collections.abc import Mapping

from trainwreck.evaluation.detectors.base import QUIET, Verdict, finite_score
from trainwreck.evaluation.detectors.generic.series import Gated, SeriesDetector
from trainwreck.evaluation.detectors.registry import EXTRA, register
from trainwreck.evaluation.extras import require


@register
class Kswin(SeriesDetector):
    """The score is -log10 of the p-value of the test; 0 while the window fills.

    >>> detector = Kswin()
    >>> detector.reset(None)
    >>> found = [detector.update({"step": i, "loss": i % 7 + 9.0 * (i > 99)}).alarm for i in range(120)]
    >>> 105 < found.index(True) < 120
    True
    """

    name = "kswin"
    rule = "last 30 losses differ from 30 drawn of the 70 before them, Kolmogorov-Smirnov p <= 0.005"
    source = "Raab, Heusinger and Schleif 2020, Reactive soft prototype computing; river, KSWIN: window 100, seed 0"
    blind_spots = (
        "NaN while one is in the window of 100; the first 100 rows, and 100 more after each alarm. It sees order, not "
        "size: an outlier is one value of thirty, a fall of a hundredth differs like one of a nat."
    )
    requires = ("river",)

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def begin(self) -> None:
        self.test = require("river.drift", EXTRA).KSWIN(seed=self.seed)

    def step(self, values: Mapping[str, float]) -> Verdict:
        test = self.test
        test.p_value = 1.0  # what it keeps while there is nothing to test yet
        test.update(values["loss"])
        # A window that was just cut is tested again only when it is full; the library's reset leaves a p-value of 0.
        if test.n < test.window_size:
            return QUIET
        p = float(test.p_value)
        score = -math.log10(p) if p > 0.0 else math.inf
        return Verdict(finite_score(score), bool(test.drift_detected))


@register
class KswinGated(Gated, Kswin):
    """The same of surprises.

    >>> detector = KswinGated()
    >>> detector.reset(None)
    >>> detector.update({"step": 0, "loss": float("nan")}).alarm
    True
    """

    name = "kswin_gated"
    rule = "gate; then KSWIN (window 100, 30 values, p <= 0.005) of the surprise in the loss"
    blind_spots = "The first 124 rows; single outliers; slow changes. A test at 0.005 on every row alarms by chance."

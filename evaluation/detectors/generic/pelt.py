"""PELT: the best division of a growing window into segments of constant mean."""

import math
from collections.abc import Mapping

import numpy as np

from trainwreck.evaluation.detectors.base import QUIET, Verdict, finite_score
from trainwreck.evaluation.detectors.generic.series import Gated, SeriesDetector
from trainwreck.evaluation.detectors.registry import EXTRA, register
from trainwreck.evaluation.extras import require


@register
class Pelt(SeriesDetector):
    """The score is what the best single cut of the window takes off the squared error, in variances times log n.

    The window grows from the last change that was found, up to 256 rows; then its oldest rows leave.
    Every 8th row it is divided again (the library's exact search under a linear kernel, which is the
    squared error), so the cost of a row is bounded. The variance is that of neighbouring
    differences, which a step in the mean leaves alone.

    >>> detector = Pelt()
    >>> detector.reset(None)
    >>> found = [detector.update({"step": i, "loss": i % 2 + 9.0 * (i > 60)}).alarm for i in range(80)]
    >>> found.index(True)
    63
    """

    name = "pelt"
    rule = "every 8 rows: PELT cuts the last 256 losses or fewer; squared error, penalty 3 variances times log n"
    source = "Killick, Fearnhead and Eckley 2012, Optimal detection of changepoints; ruptures; penalty is ours"
    blind_spots = (
        "NaN and infinity: a window that holds one is not divided, and it holds it for 256 rows. Up to 15 rows of "
        "delay; a healthy loss that falls is cut into steps."
    )
    requires = ("ruptures",)

    def __init__(self, longest: int = 256, every: int = 8, least: int = 8, penalty: float = 3.0) -> None:
        self.longest, self.every, self.least, self.penalty = longest, every, least, penalty

    def begin(self) -> None:
        self.search = require("ruptures", EXTRA).KernelCPD
        self.rows = 0
        self.window: list[float] = []

    def step(self, values: Mapping[str, float]) -> Verdict:
        self.rows += 1
        self.window.append(values["loss"])
        del self.window[: -self.longest]
        if self.rows % self.every or len(self.window) < 4 * self.least:
            return QUIET
        signal = np.array(self.window)
        if not np.isfinite(signal).all():
            return QUIET
        # Far from 0 the kernel's sums lose their digits; a huge value must not overflow when squared.
        signal = np.clip(signal - np.median(signal), -1e30, 1e30)
        unit = _variance(signal) * math.log(len(signal))
        if unit == 0.0:
            return QUIET
        search = self.search(kernel="linear", min_size=self.least).fit(signal)
        ends = search.predict(pen=self.penalty * unit)
        if len(ends) > 1:
            self.window = self.window[ends[-2] :]
        return Verdict(finite_score(_best_cut(signal, self.least) / unit), len(ends) > 1)


def _variance(signal: np.ndarray) -> float:
    """Of the noise: from the median absolute difference of neighbours, at least a billionth of the spread."""
    spread = float(np.ptp(signal))
    return max(float(np.median(np.abs(np.diff(signal)))) * 1.4826 / math.sqrt(2.0), 1e-9 * spread) ** 2


def _best_cut(signal: np.ndarray, least: int) -> float:
    """The most that one cut takes off the sum of squares about the mean."""
    n = len(signal)
    sums = np.cumsum(signal)
    at = np.arange(least, n - least + 1)
    head, tail = sums[at - 1], sums[-1] - sums[at - 1]
    return float(np.max(head * head / at + tail * tail / (n - at)) - sums[-1] ** 2 / n)


@register
class PeltGated(Gated, Pelt):
    """The same of surprises.

    >>> detector = PeltGated()
    >>> detector.reset(None)
    >>> detector.update({"step": 0, "loss": float("nan")}).alarm
    True
    """

    name = "pelt_gated"
    rule = "gate; then every 8 rows PELT of the surprise in the loss, penalty 3 variances times log n, segments of 8"
    blind_spots = "The first 56 rows, and up to 15 rows of delay; slow changes, which the trend of the gate follows."

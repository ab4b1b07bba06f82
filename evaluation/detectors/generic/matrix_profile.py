"""Matrix profile: the latest stretch of the loss looks like none before it."""

import math
from collections.abc import Mapping

import numpy as np

from trainwreck.evaluation.detectors.base import QUIET, Verdict, finite_score
from trainwreck.evaluation.detectors.generic.series import Gated, SeriesDetector
from trainwreck.evaluation.detectors.registry import EXTRA, register
from trainwreck.evaluation.extras import require


@register
class MatrixProfile(SeriesDetector):
    """The score is sqrt(1 - r), r the best correlation of the last 16 rows with 16 rows that ended 4 rows ago or more.

    That is the left matrix profile of a streaming series, z-normalised, over its value for unrelated
    stretches (sqrt(2 m)). The library's incremental class takes the same step but compiles for more
    than a minute in every process, so the step itself is asked for: its distance profile of the last
    stretch, over at most 256 rows. Where a stretch holds NaN or infinity its distance is infinite.

    >>> detector = MatrixProfile()
    >>> detector.reset(None)
    >>> wave = [math.sin(i / 3.0) for i in range(120)]
    >>> last = [detector.update({"step": i, "loss": x}) for i, x in enumerate([*wave, *range(16)])]
    >>> last[119].score < 0.1 < 0.2 < last[-1].score
    True
    """

    name = "matrix_profile"
    rule = "every 4 rows: no 16 of the last 256 losses correlate by 0.36 with the latest 16 (distance 0.8 sqrt(2 m))"
    source = "Yeh et al. 2018, Time series joins, motifs, discords and shapelets; stumpy, mass; threshold is ours"
    blind_spots = (
        "Size: a stretch is compared by its form alone, and noise looks like noise; the first 48 rows. It isn't blind "
        "to NaN and infinity, which are like nothing before, for as long as they last and 16 rows on."
    )
    requires = ("stumpy",)

    def __init__(self, length: int = 16, longest: int = 256, every: int = 4, threshold: float = 0.8) -> None:
        self.length, self.longest, self.every, self.threshold = length, longest, every, threshold

    def begin(self) -> None:
        self.mass = require("stumpy", EXTRA).mass
        # Stretches are short: threads would cost thirty times what they do.
        require("numba", EXTRA).set_num_threads(1)
        self.rows = 0
        self.window: list[float] = []

    def step(self, values: Mapping[str, float]) -> Verdict:
        value = values["loss"]
        self.rows += 1
        self.window.append(max(-1e30, min(1e30, value)) if math.isfinite(value) else math.nan)
        del self.window[: -self.longest]
        if self.rows % self.every or len(self.window) < 3 * self.length:
            return QUIET
        series = np.array(self.window)
        apart = math.ceil(self.length / 4) + 1  # the library's exclusion zone
        with np.errstate(all="ignore"):
            distances = self.mass(series[-self.length :], series[:-apart])
        score = float(np.min(distances)) / math.sqrt(2.0 * self.length)
        return Verdict(finite_score(score), score > self.threshold)


@register
class MatrixProfileGated(Gated, MatrixProfile):
    """The same of surprises.

    >>> detector = MatrixProfileGated()
    >>> detector.reset(None)
    >>> detector.update({"step": 0, "loss": float("nan")}).alarm
    True
    """

    name = "matrix_profile_gated"
    rule = "gate; then every 4 rows the matrix profile of the surprise in the loss, distance over 0.8 sqrt(2 m)"
    blind_spots = "The first 72 rows; size; slow changes; a single outlier, which is like any other outlier before."

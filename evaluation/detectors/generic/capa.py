"""CAPA: collective and point anomalies in the latest rows."""

import math
from collections.abc import Mapping

import numpy as np

from trainwreck.evaluation.detectors.base import QUIET, Verdict, finite_score
from trainwreck.evaluation.detectors.generic.series import Gated, SeriesDetector
from trainwreck.evaluation.detectors.registry import EXTRA, register
from trainwreck.evaluation.extras import require


@register
class Capa(SeriesDetector):
    """The score is the largest penalised saving of a segment or point that ends in the last 8 rows, at least 0.

    The library is run every 8th row on the last 64 rows or fewer, in units of their noise (from
    neighbouring differences) about their median. An older anomaly was reported when it was new.

    >>> detector = Capa()
    >>> detector.reset(None)
    >>> found = [detector.update({"step": i, "loss": i % 3 + 9.0 * (i > 60)}).alarm for i in range(80)]
    >>> found.index(True)
    63
    """

    name = "capa"
    rule = "every 8 rows: CAPA finds an anomalous segment or point that ends in the last 8 of up to 64 rows"
    source = "Fisch et al. 2022, A linear time method for the detection of collective and point anomalies; skchange"
    blind_spots = (
        "NaN and infinity: nothing is tested for 64 rows after one. The first 32 rows, and up to 8 rows of "
        "delay; a healthy loss that falls ends under its median, which is a segment apart."
    )
    requires = ("skchange",)

    def __init__(self, longest: int = 64, every: int = 8, least: int = 32) -> None:
        self.longest, self.every, self.least = longest, every, least

    def begin(self) -> None:
        require("skchange", EXTRA)
        detectors = require("skchange.detectors", EXTRA)
        scorers = require("skchange.interval_scorers", EXTRA)
        self.library = detectors.CAPA(segment_saving=scorers.L2Saving(baseline_mean=0.0))
        self.length = 0  # of the window that it was fitted to: all that it learns, with a mean of 0 given
        self.rows = 0
        self.window: list[float] = []

    def step(self, values: Mapping[str, float]) -> Verdict:
        self.rows += 1
        self.window.append(values["loss"])
        del self.window[: -self.longest]
        if self.rows % self.every or len(self.window) < self.least:
            return QUIET
        signal = np.array(self.window)
        if not np.isfinite(signal).all():
            return QUIET
        signal = np.clip(signal - np.median(signal), -1e30, 1e30)
        noise = float(np.median(np.abs(np.diff(signal)))) * 1.4826 / math.sqrt(2.0)
        noise = max(noise, 1e-9 * float(np.ptp(signal)))
        if noise == 0.0:
            return QUIET
        signal = (signal / noise).reshape(-1, 1)
        if len(signal) != self.length:
            self.library.fit(signal)
            self.length = len(signal)
        found = self.library.predict_all(signal)
        since = len(signal) - self.every
        segments = found["segment_savings"][found["segment_ends"] > since]
        points = found["point_savings"][found["point_indices"] >= since]
        anomalous = any(end > since for _, end in found["segment_anomalies"]) or any(found["point_anomalies"] >= since)
        return Verdict(finite_score(max(0.0, *segments, *points)), anomalous)


@register
class CapaGated(Gated, Capa):
    """The same of surprises.

    >>> detector = CapaGated()
    >>> detector.reset(None)
    >>> detector.update({"step": 0, "loss": float("nan")}).alarm
    True
    """

    name = "capa_gated"
    rule = "gate; then every 8 rows CAPA of the surprise in the loss, last 8 of up to 64"
    blind_spots = "The first 56 rows, and up to 8 rows of delay; slow changes, which the trend of the gate follows."

"""BOCPD: Bayesian online change-point detection with a normal model."""

import math
from collections.abc import Mapping

import numpy as np

from trainwreck.evaluation.detectors.base import QUIET, Verdict, finite_score
from trainwreck.evaluation.detectors.generic.series import Gated, SeriesDetector
from trainwreck.evaluation.detectors.registry import register


@register
class Bocpd(SeriesDetector):
    """The score is the log odds that the present segment began within the last 10 rows.

    Run lengths have a constant hazard of 1 / 250; within a segment values are normal with unknown mean
    and variance (normal-inverse-gamma prior: kappa, alpha and beta of 1 about the first value). The
    longest run length kept stands for all longer ones, so that a row costs the same for ever. In the
    first 20 rows every segment is young, and the score is 0.

    >>> detector = Bocpd()
    >>> detector.reset(None)
    >>> found = [detector.update({"step": i, "loss": x}).alarm for i, x in enumerate([1.0] * 60 + [9.0] * 3)]
    >>> found.index(True)
    60
    """

    name = "bocpd"
    rule = "odds that the segment began within the last 10 rows are over 1; hazard 1 / 250"
    source = "Adams and MacKay 2007, Bayesian online changepoint detection; prior and the 10 rows are ours"
    blind_spots = (
        "One NaN or infinity silences it for ever; the first 20 rows; slow changes. The prior expects noise of about "
        "one nat, so that it takes a large step in a quiet loss to be a change; a falling loss is many segments."
    )

    def __init__(self, hazard: float = 1 / 250, recent: int = 10, longest: int = 256) -> None:
        self.hazard, self.recent, self.longest = hazard, recent, longest

    def begin(self) -> None:
        self.rows = 0
        self.expected = 0.0
        self.log_p = np.zeros(1)  # of each run length, in rows before the next value
        self.centre = self.deviation = np.zeros(1)  # mean, and half the sum of squares plus beta
        counts = range(self.longest + 1)
        # Of a Student t with 2 alpha degrees, alpha = 1 + n / 2 after n values.
        self.gamma = np.array([math.lgamma(1.5 + n / 2) - math.lgamma(1.0 + n / 2) for n in counts])

    def step(self, values: Mapping[str, float]) -> Verdict:
        value = values["loss"]
        if self.rows == 0:
            self.expected = value
            self.centre, self.deviation = np.array([value]), np.ones(1)
        self.rows += 1
        with np.errstate(all="ignore"):  # what is not finite makes everything NaN, and the rule blind
            self._learn(value)
            odds = self._log_odds()
        return QUIET if self.rows <= 2 * self.recent else Verdict(finite_score(odds), odds > 0.0)

    def _learn(self, value: float) -> None:
        n = np.arange(len(self.log_p), dtype=float)
        kappa, alpha = 1.0 + n, 1.0 + n / 2.0
        spread = 2.0 * self.deviation * (kappa + 1.0) / kappa  # degrees of freedom times the scale squared
        off = value - self.centre
        density = self.gamma[: len(n)] - 0.5 * np.log(math.pi * spread) - (alpha + 0.5) * np.log1p(off * off / spread)
        joint = self.log_p + density
        joint -= joint.max()
        joint -= math.log(np.exp(joint).sum())
        # A new segment begins before the next value with the chance of the hazard, whatever was.
        self.log_p = np.concatenate([[math.log(self.hazard)], joint + math.log1p(-self.hazard)])
        self.deviation = np.concatenate([[1.0], self.deviation + kappa * off * off / (2.0 * (kappa + 1.0))])
        self.centre = np.concatenate([[self.expected], self.centre + off / (kappa + 1.0)])
        if len(self.log_p) > self.longest:
            self.log_p[-2] = np.logaddexp(self.log_p[-2], self.log_p[-1])
            self.log_p, self.centre, self.deviation = self.log_p[:-1], self.centre[:-1], self.deviation[:-1]

    def _log_odds(self) -> float:
        """Of at least one and at most `recent` rows in the present segment against more."""
        young, old = self.log_p[1 : self.recent + 1], self.log_p[self.recent + 1 :]
        return float(np.logaddexp.reduce(young) - np.logaddexp.reduce(old)) if len(old) else 0.0


@register
class BocpdGated(Gated, Bocpd):
    """The same of surprises, about 0.

    >>> detector = BocpdGated()
    >>> detector.reset(None)
    >>> falling = [4.0 * 0.99**step * (1.01 if step % 2 else 0.99) for step in range(100)]
    >>> [detector.update({"step": i, "loss": x}).alarm for i, x in enumerate([*falling, 8.0])].index(True)
    100
    """

    name = "bocpd_gated"
    rule = "gate; then BOCPD of the surprise in the loss"
    blind_spots = "The first 44 rows; slow changes, which the trend of the gate follows; a single outlier is a segment."

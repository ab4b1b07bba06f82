"""Intervals by resampling twin sets, since runs that share a seed are not independent."""

from typing import NamedTuple

import numpy as np

from trainwreck.evaluation.constants import CONFIDENCE, RESAMPLES

SMALL_STRATUM = 5  # clusters; smaller strata are pooled, or they would hardly vary at all


class Estimate(NamedTuple):
    """A value with its percentile interval; NaN where it is undefined."""

    value: float
    low: float
    high: float


def strata(cluster: np.ndarray, cause: np.ndarray, severity: np.ndarray) -> np.ndarray:
    """Stratum of each cluster, in the order of np.unique(cluster). [C] int

    Clusters with the same set of (cause, severity) among their runs are one stratum, so that a
    resample keeps the make-up of the data; those of strata under 5 clusters are pooled into one.
    """
    groups: dict[int, set[tuple[str, str]]] = {}
    for key, *content in zip(cluster.tolist(), cause.tolist(), severity.tolist(), strict=True):
        groups.setdefault(key, set()).add((content[0], content[1]))
    contents = [tuple(sorted(groups[key])) for key in sorted(groups)]
    names = {content: i for i, content in enumerate(sorted(set(contents)))}
    code = np.array([names[content] for content in contents], dtype=np.int64)
    size = np.bincount(code, minlength=len(names))
    return np.where(size[code] < SMALL_STRATUM, -1, code)


class Bootstrap:
    """Resamples of a set of runs: clusters drawn with replacement within their strata.

    cluster, cause, severity: [N]. The draws depend on these and on the seed alone, so two
    detectors scored on the same runs are compared on the same resamples.
    """

    def __init__(
        self,
        cluster: np.ndarray,
        cause: np.ndarray,
        severity: np.ndarray,
        *,
        resamples: int = RESAMPLES,
        seed: int = 0,
        confidence: float = CONFIDENCE,
    ) -> None:
        keys, self.index = np.unique(cluster, return_inverse=True)
        self.order = np.argsort(self.index, kind="stable")  # runs by cluster, and where each begins
        self.starts = np.searchsorted(self.index[self.order], np.arange(len(keys)))
        self.confidence = confidence
        self._counted: dict[tuple[tuple[int, ...], bytes], np.ndarray] = {}
        random = np.random.default_rng(seed)
        self.weights = np.zeros((resamples, len(keys)))  # [R, C]: how often each cluster was drawn
        stratum = strata(cluster, cause, severity)
        offset = np.arange(resamples)[:, None]
        for name in np.unique(stratum):
            members = np.flatnonzero(stratum == name)
            drawn = random.integers(0, len(members), size=(resamples, len(members)))
            counts = np.bincount((drawn + offset * len(members)).ravel(), minlength=resamples * len(members))
            self.weights[:, members] = counts.reshape(resamples, len(members))

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum over the runs of each resample. values: [N] or [N, M]. Returns [R] or [R, M]."""
        values = np.asarray(values, dtype=np.float64)
        if not values.any():  # most detectors name no cause
            return np.zeros((len(self.weights), *values.shape[1:]))
        total = np.add.reduceat(values.reshape(len(values), -1)[self.order], self.starts, axis=0)
        return (self.weights @ total).reshape(-1, *values.shape[1:])

    def counts(self, mask: np.ndarray) -> np.ndarray:
        """`sums` of a bool mask [N] or [N, M]: how many runs each resample has of it. Kept, as all detectors ask."""
        key = mask.shape, mask.tobytes()
        if key not in self._counted:
            self._counted[key] = self.sums(mask)
        return self._counted[key]

    def interval(self, samples: np.ndarray) -> tuple[float, float]:
        """Percentile interval of a statistic's resamples [R], over those where it is defined."""
        samples = samples[np.isfinite(samples)]
        if not len(samples):
            return float("nan"), float("nan")
        tail = (1.0 - self.confidence) / 2.0
        low, high = np.quantile(samples, [tail, 1.0 - tail])
        return float(low), float(high)

    def mean(self, values: np.ndarray, mask: np.ndarray) -> Estimate:
        """Mean of values [N] over the runs under mask [N]."""
        if not mask.any():
            return Estimate(np.nan, np.nan, np.nan)
        samples = ratio(self.sums(np.where(mask, values, 0.0)), self.counts(mask))
        return Estimate(float(np.mean(values[mask])), *self.interval(samples))

    def means(self, values: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`mean` of each column of values [N, M]: value, low, high, each [M]."""
        if not mask.any():
            blank = np.full(values.shape[1], np.nan)
            return blank, blank, blank
        top, bottom = self.sums(np.where(mask[:, None], values, 0.0)), self.counts(mask)
        drawn = bottom > 0
        tail = (1.0 - self.confidence) / 2.0
        low, high = np.quantile(top[drawn] / bottom[drawn, None], [tail, 1.0 - tail], axis=0)
        return values[mask].mean(axis=0), low, high

    def macro(self, values: np.ndarray, cause: np.ndarray, mask: np.ndarray) -> Estimate:
        """Mean over causes of the mean of values [N] over each cause's runs under mask [N]."""
        if not mask.any():
            return Estimate(np.nan, np.nan, np.nan)
        _, code = np.unique(cause[mask], return_inverse=True)
        member = np.zeros((len(mask), code.max() + 1), dtype=bool)
        member[np.flatnonzero(mask), code] = True
        top, bottom = self.sums(member * values[:, None]), self.counts(member)
        present = bottom > 0
        samples = np.where(present, ratio(top, bottom), 0.0).sum(axis=1) / np.maximum(1, present.sum(axis=1))
        exact = (member * values[:, None]).sum(axis=0) / member.sum(axis=0)
        return Estimate(float(exact.mean()), *self.interval(samples))


def ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """top / bottom, which broadcast; NaN where bottom is 0."""
    shape = np.broadcast_shapes(top.shape, bottom.shape)
    return np.asarray(np.divide(top, bottom, out=np.full(shape, np.nan), where=bottom > 0))

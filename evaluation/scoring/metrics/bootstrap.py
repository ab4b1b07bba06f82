"""Intervals by resampling clusters in two ways: runs of one scenario depend on each other, and so do runs of one seed.

The variance of a score is that of resampling scenarios, plus that of resampling seeds, less that of resampling the
runs that share both (Cameron, Gelbach and Miller 2011), and never less than either of the first two. The interval is
Student's, with the degrees of freedom of Satterthwaite (1946): with ten seeds and most of the variance between them
there are nine. That of a share is the Jeffreys interval of as many independent runs as would have that variance (Korn
and Graubard 1998), that of a rate the one of as many independent events.

A share that no resample changes has an interval too, although its variance is 0: every cluster has the same mean c.
With n clusters the chance q that a further one differs is at most the upper end of the exact binomial interval of none
in n (Clopper and Pearson 1934), and the mean of one that differs may be anything from 0 to 1. So the expectation is
from (1 - q) c to (1 - q) c + q. With c = 0 or 1 this is the exact binomial interval itself; with a randomised threshold
at which all runs tie, c is the chance with which it stops each.
"""

import math
from collections.abc import Hashable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np

from trainwreck.evaluation.constants import CONFIDENCE, RESAMPLES
from trainwreck.evaluation.intervals import binomial_interval

K = TypeVar("K", bound=Hashable)
SPARSE = 8  # a column with fewer non-zero clusters than one in so many is summed by those alone
AT_ONCE = 4096  # changes from level to level that are summed at once, so that they fit into a few megabytes
SMALL_STRATUM = 5  # clusters; smaller strata are pooled, or they would hardly vary at all
ROUNDING = 1e-12  # so close to none or all a share is none or all
SHARE = (0.0, 1.0)
RATE = (0.0, math.inf)
ANY = (-math.inf, math.inf)


class Estimate(NamedTuple):
    """A value with its interval; NaN where it is undefined."""

    value: float
    low: float
    high: float


class Share(NamedTuple):
    """Events over an exposure, with an interval. NaN where there was no exposure; events are expected ones where a
    threshold is randomised."""

    value: float
    low: float
    high: float
    events: float
    exposure: int


class Ratio(NamedTuple):
    """A ratio of sums over runs to estimate: of `above` over `below`, a mean where `below` is a mask or weights.

    above: [N], or [N, T] with the chances of T thresholds: [T], and on each resample samples, [S, T] or [1, T].
    below: [N].
    """

    above: np.ndarray
    below: np.ndarray
    bounds: tuple[float, float] = SHARE
    chances: np.ndarray = np.ones(1)
    samples: np.ndarray | None = None


NOTHING = Estimate(math.nan, math.nan, math.nan)


def strata(cluster: np.ndarray, content: np.ndarray) -> np.ndarray:
    """Stratum of each cluster, in the order of np.unique(cluster). [C] int

    Clusters with the same contents (strings, [N]) among their runs are one stratum, so that a resample
    keeps the make-up of the data; those of strata under 5 clusters are pooled into one.
    """
    groups: dict[int, set[str]] = {}
    for key, one in zip(cluster.tolist(), content.tolist(), strict=True):
        groups.setdefault(key, set()).add(one)
    contents = [tuple(sorted(groups[key])) for key in sorted(groups)]
    names = {one: i for i, one in enumerate(sorted(set(contents)))}
    code = np.array([names[one] for one in contents], dtype=np.int64)
    size = np.bincount(code, minlength=len(names))
    return np.where(size[code] < SMALL_STRATUM, -1, code)


class Clustering:
    """Resamples of runs by whole clusters, drawn with replacement within strata.

    index: [N], cluster of each run. starts, order: runs by cluster, and where each begins. weights: [R, C], how often
    each cluster was drawn.
    """

    def __init__(self, key: np.ndarray, content: np.ndarray, resamples: int, seed: int) -> None:
        keys, self.index = np.unique(key, return_inverse=True)
        self.order = np.argsort(self.index, kind="stable")
        self.starts = np.searchsorted(self.index[self.order], np.arange(len(keys)))
        random = np.random.default_rng(seed)
        self.weights = np.zeros((resamples, len(keys)))
        stratum = strata(self.index, content)
        offset = np.arange(resamples)[:, None]
        for name in np.unique(stratum):
            members = np.flatnonzero(stratum == name)
            drawn = random.integers(0, len(members), size=(resamples, len(members)))
            counts = np.bincount((drawn + offset * len(members)).ravel(), minlength=resamples * len(members))
            self.weights[:, members] = counts.reshape(resamples, len(members))
        self._by_cluster = np.ascontiguousarray(self.weights.T)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """values: [N, M]. Returns [R, M]. Columns that are zero in most clusters, as of one scenario, cost less."""
        by_cluster = np.add.reduceat(values[self.order], self.starts, axis=0)
        few = np.count_nonzero(by_cluster, axis=0) * SPARSE < len(by_cluster)
        if not few.any():
            return np.asarray(self.weights @ by_cluster)
        found = np.zeros((len(self.weights), by_cluster.shape[1]))
        found[:, ~few] = self.weights @ by_cluster[:, ~few]
        sparse = by_cluster[:, few].T
        column, cluster = np.nonzero(sparse)
        filled, first = np.unique(column, return_index=True)
        if len(filled):
            parts = self._by_cluster[cluster] * sparse[column, cluster][:, None]
            found[:, np.flatnonzero(few)[filled]] = np.add.reduceat(parts, first, axis=0).T
        return found

    def count(self, mask: np.ndarray) -> int:
        """Clusters with a run under mask [N]."""
        return len(np.unique(self.index[mask]))


class Bootstrap:
    """Resamples of runs by one clustering, or by two and the cells of both.

    keys: cluster of each run, [N] each, one array or two. content: [N], what strata are made of; all the same by
    default. The draws depend on these and on the seed alone, so two detectors scored on the same runs are
    compared on the same resamples. Resamples are one after another: those of each clustering, then those of the cells.
    """

    def __init__(
        self,
        *keys: np.ndarray,
        content: np.ndarray | None = None,
        resamples: int = RESAMPLES,
        seed: int = 0,
        confidence: float = CONFIDENCE,
    ) -> None:
        codes = [np.unique(key, return_inverse=True)[1] for key in keys]
        if len(codes) == 2:
            codes.append(codes[0] * (codes[1].max(initial=0) + 1) + codes[1])
        same = np.full(len(codes[0]), "") if content is None else content
        self.parts = [Clustering(code, same, resamples, seed + i) for i, code in enumerate(codes)]
        self.drawn = resamples * len(self.parts)  # S
        self.resamples = resamples
        self.confidence = confidence
        self._by_run = np.ascontiguousarray(self.draws().T)
        self._occupied: dict[bytes, np.ndarray] = {}
        self._counted: dict[tuple[tuple[int, ...], bytes], np.ndarray] = {}

    def draws(self) -> np.ndarray:
        """How often each run is in each resample. [S, N]"""
        return np.vstack([part.weights[:, part.index] for part in self.parts])

    def expected(self, values: np.ndarray, chances: np.ndarray) -> np.ndarray:
        """Sum over the runs of each resample, expected over levels that are drawn with the chances of that resample.

        values: [N, T, M], at each level. chances: [S, T], or [1, T] for all resamples. Returns [S, M]. From one level
        to the next few runs change, so that changes are summed: a threshold has hundreds of levels.
        """
        from_here = np.cumsum(chances[:, ::-1], axis=1)[:, ::-1]
        found: np.ndarray = self.sums(values[:, 0]) * from_here[:, :1]
        change = np.diff(values, axis=1)
        run, level = np.nonzero(change.any(axis=2))
        later = np.ascontiguousarray(from_here.T[1:])
        for i in range(0, len(run), AT_ONCE):
            at = run[i : i + AT_ONCE], level[i : i + AT_ONCE]
            found += (self._by_run[at[0]] * later[at[1]]).T @ change[at]
        return found

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum over the runs of each resample. values: [N] or [N, M]. Returns [S] or [S, M]."""
        values = np.asarray(values, dtype=np.float64)
        if not values.any():  # most detectors name no cause
            return np.zeros((self.drawn, *values.shape[1:]))
        flat = values.reshape(len(values), -1)
        return np.vstack([part.sums(flat) for part in self.parts]).reshape(-1, *values.shape[1:])

    def counts(self, mask: np.ndarray) -> np.ndarray:
        """`sums` of a bool mask or of weights, [N] or [N, M]. Kept, as all detectors ask."""
        key = mask.shape, mask.tobytes()
        if key not in self._counted:
            self._counted[key] = self.sums(mask)
        return self._counted[key]

    def interval(
        self, value: float, samples: np.ndarray, mask: np.ndarray, bounds: tuple[float, float] = ANY
    ) -> tuple[float, float]:
        """The interval of a statistic from its resamples [S].

        mask: [N] bool, the runs that it is a statistic of. bounds: `SHARE`, `RATE` or `ANY`. Of a share that is none or
        all, or that no resample changes, it rests on the number of independent clusters, that of the clustering which
        has more. NaN where nothing varies otherwise: what has no bounds may be anything in a further cluster.
        """
        if math.isnan(value):
            return math.nan, math.nan
        low, high = self._intervals(np.array([value]), samples[:, None], self._clusters(mask)[:, None], bounds)
        return _plain(low)[0], _plain(high)[0]

    def _intervals(
        self, value: np.ndarray, samples: np.ndarray, clusters: np.ndarray, bounds: tuple[float, float]
    ) -> tuple[np.ndarray, np.ndarray]:
        """`interval` of many statistics. value: [M]; samples: [S, M]; clusters: [P, M]. Returns [M], [M]"""
        from scipy.special import betaincinv, gammaincinv, stdtrit

        variance, freedom = self._variances(samples, clusters)
        tail = (1.0 - self.confidence) / 2.0
        times, normal = stdtrit(freedom, 1.0 - tail), float(stdtrit(math.inf, 1.0 - tail))
        wide = times * np.sqrt(variance)
        low, high = np.maximum(bounds[0], value - wide), value + wide
        same = variance <= (ROUNDING * np.maximum(1.0, np.abs(value))) ** 2
        low[same], high[same] = math.nan, math.nan
        if bounds == SHARE:
            same |= np.isin(value, SHARE)
            c, runs = value[~same], value[~same] * (1.0 - value[~same]) / variance[~same]
            runs = runs * (normal / times[~same]) ** 2
            shape = c * runs + 0.5, (1.0 - c) * runs + 0.5
            low[~same], high[~same] = betaincinv(*shape, tail), betaincinv(*shape, 1.0 - tail)
            for i in np.flatnonzero(same & ~np.isnan(value)):
                differs = binomial_interval(0, int(clusters[:2, i].max()), self.confidence)[1]
                low[i] = (1.0 - differs) * value[i]
                high[i] = low[i] + differs
        elif bounds == RATE:
            some = ~same & (value > 0)
            events = value[some] ** 2 / variance[some] * (normal / times[some]) ** 2
            low[some], high[some] = (
                value[some] * gammaincinv(events + 0.5, share) / events for share in (tail, 1.0 - tail)
            )
        return low, high

    def _clusters(self, mask: np.ndarray) -> np.ndarray:
        """How many clusters of each part have a run under mask [N]. [P] int"""
        key = mask.tobytes()
        if key not in self._occupied:
            self._occupied[key] = np.array([part.count(mask) for part in self.parts])
        return self._occupied[key]

    def _variances(self, samples: np.ndarray, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Variance of each statistic with its degrees of freedom. samples: [S, M]; clusters: [P, M]. [M], [M]"""
        # Each in a row of its own, so that a variance is bitwise the same whatever is beside it.
        parts = np.ascontiguousarray(samples.T).reshape(samples.shape[1], len(self.parts), -1)
        finite = np.isfinite(parts)
        enough = ((finite.sum(axis=2) > 1) & (clusters.T > 1)).T
        if finite.all():
            spread = parts.var(axis=2).T
        else:
            spread = np.zeros(clusters.shape)
            for part, i in zip(*np.nonzero(enough), strict=True):
                spread[part, i] = parts[i, part, finite[i, part]].var()
        variances = np.where(enough, spread * clusters / np.maximum(1, clusters - 1), 0.0)
        single = variances[:2] if len(variances) == 3 else variances
        total = single[0]
        if len(variances) == 3:
            total = np.maximum(single.sum(axis=0) - variances[2], single.max(axis=0))
        freed = (single**2 / np.maximum(1, clusters[: len(single)] - 1)).sum(axis=0)
        return total, np.divide(total**2, freed, out=np.full(len(total), math.inf), where=freed > 0)

    def ratios(self, wanted: Mapping[K, Ratio]) -> dict[K, Estimate]:
        """Every ratio with its interval; all at once, since a pass over the resamples costs the same for many."""
        together: dict[tuple[int, int], list[K]] = {}  # by the levels that they are of
        for name, one in wanted.items():
            together.setdefault((id(one.samples), id(one.chances)), []).append(name)
        tops: dict[K, np.ndarray] = {}
        for names in together.values():
            first = wanted[names[0]]
            chances = first.chances[None] if first.samples is None else first.samples
            values = np.stack([wanted[name].above.reshape(len(first.below), -1) for name in names], axis=2)
            tops |= dict(zip(names, self.expected(values, chances).T, strict=True))
        found = {name: self._value(one) for name, one in wanted.items()}
        for bounds in {one.bounds for one in wanted.values()}:
            names = [name for name, one in wanted.items() if one.bounds == bounds and not math.isnan(found[name].value)]
            if not names:
                continue
            bottoms = [self.counts(wanted[name].below) for name in names]
            samples = ratio(np.stack([tops[name] for name in names], axis=1), np.stack(bottoms, axis=1))
            clusters = np.stack([self._clusters(wanted[name].below != 0) for name in names], axis=1)
            values = np.array([found[name].value for name in names])
            low, high = self._intervals(values, samples, clusters, bounds)
            found |= dict(zip(names, map(Estimate, values.tolist(), _plain(low), _plain(high)), strict=True))
        return found

    def ratio(self, above: np.ndarray, below: np.ndarray, bounds: tuple[float, float] = SHARE) -> Estimate:
        """Sum of `above` over sum of `below`, [N] each; a mean where `below` is a mask or weights."""
        return self.ratios({"": Ratio(above, below, bounds)})[""]

    def mean(self, values: np.ndarray, mask: np.ndarray, bounds: tuple[float, float] = SHARE) -> Estimate:
        """Mean of values [N] over the runs under mask [N]."""
        return self.ratio(np.where(mask, values, 0.0), mask, bounds)

    def _value(self, one: Ratio) -> Estimate:
        """The ratio itself, without its interval."""
        if not one.below.any() or np.isnan(one.chances).any():
            return NOTHING
        value = float((one.above.reshape(len(one.above), -1).sum(axis=0) @ one.chances) / one.below.sum())
        if one.bounds == SHARE:
            value = next((edge for edge in SHARE if abs(value - edge) < ROUNDING), value)
        return Estimate(value, math.nan, math.nan)


def _plain(values: np.ndarray) -> list[float]:
    """As numbers of Python. Every NaN is `math.nan`, so that two estimates without an interval can be equal."""
    return [math.nan if value != value else value for value in values.tolist()]


def ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """top / bottom, which broadcast; NaN where bottom is 0."""
    shape = np.broadcast_shapes(top.shape, bottom.shape)
    return np.asarray(np.divide(top, bottom, out=np.full(shape, np.nan), where=bottom > 0))

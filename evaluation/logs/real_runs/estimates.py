"""Shares and means over real runs, with intervals by resampling clusters: runs of one sweep are not independent."""

from collections.abc import Sequence

import numpy as np

from trainwreck.evaluation.intervals import binomial_interval
from trainwreck.evaluation.scoring.metrics.bootstrap import Bootstrap, Estimate, ratio

NOTHING = Estimate(float("nan"), float("nan"), float("nan"))


class Clusters:
    """The clusters of some runs. names: [N], the cluster of each."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.index = np.unique(np.array(names, dtype=str), return_inverse=True)
        none = np.full(len(self.index), "")
        self.bootstrap = Bootstrap(self.index, none, none)

    def share(self, values: np.ndarray, mask: np.ndarray) -> dict[str, Estimate]:
        """Share of the runs under `mask` [N] of which `values` [N] is true: by run, and as the mean over clusters.

        Where all or none are, no resample differs, and the interval is the exact one for as many clusters.
        """
        if not mask.any():
            return {"run": NOTHING, "cluster": NOTHING}
        held = values[mask]
        if held.all() or not held.any():
            among = len(np.unique(self.index[mask]))
            low, high = binomial_interval(among if held.all() else 0, among)
            same = Estimate(float(held[0]), low, high)
            return {"run": same, "cluster": same}
        return {"run": self.mean(values, mask), "cluster": self.mean(values, mask, self._evenly(mask))}

    def mean(self, values: np.ndarray, mask: np.ndarray, weights: np.ndarray | None = None) -> Estimate:
        """Mean of values [N] over the runs under mask [N], by weights [N]; without an interval in one cluster."""
        if not mask.any():
            return NOTHING
        by = mask.astype(np.float64) if weights is None else weights
        return self.ratio(np.where(mask, values, 0.0) * by, by)

    def ratio(self, above: np.ndarray, below: np.ndarray) -> Estimate:
        """Sum of `above` [N] over sum of `below` [N]; without an interval where only one cluster has any of it."""
        value = float(above.sum() / below.sum())
        if len(np.unique(self.index[below > 0])) < 2:
            return Estimate(value, float("nan"), float("nan"))
        samples = ratio(self.bootstrap.sums(above), self.bootstrap.sums(below))
        return Estimate(value, *self.bootstrap.interval(samples))

    def _evenly(self, mask: np.ndarray) -> np.ndarray:
        """Weights under which each cluster with a run under `mask` counts the same. [N]"""
        count = np.bincount(self.index[mask], minlength=len(self.names))
        return np.where(mask, 1.0 / np.maximum(1, count[self.index]), 0.0)

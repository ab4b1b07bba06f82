"""Shares and means over real runs, with intervals by resampling clusters: runs of one sweep are not independent."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from trainwreck.evaluation.intervals import binomial_interval
from trainwreck.evaluation.scoring.metrics.bootstrap import (
    ANY,
    NOTHING,
    ROUNDING,
    SHARE,
    Bootstrap,
    Estimate,
    ratio,
)


class Clusters:
    """The clusters of some runs. names: [N], the cluster of each."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.index = np.unique(np.array(names, dtype=str), return_inverse=True)
        self.bootstrap = Bootstrap(self.index)

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
        by = {"run": mask.astype(np.float64), "cluster": self.evenly(mask)}
        return {name: self.ratio(np.where(mask, values, 0.0) * weights, weights, SHARE) for name, weights in by.items()}

    def mean(self, values: np.ndarray, mask: np.ndarray) -> Estimate:
        """Mean of values [N] over the runs under mask [N]; without an interval in one cluster."""
        return self.ratio(np.where(mask, values, 0.0), mask.astype(np.float64)) if mask.any() else NOTHING

    def ratio(self, above: np.ndarray, below: np.ndarray, bounds: tuple[float, float] = ANY) -> Estimate:
        """Sum of `above` [N] over sum of `below` [N]; without an interval where only one cluster has any of it."""
        if len(np.unique(self.index[below > 0])) < 2:
            return Estimate(float(above.sum() / below.sum()), float("nan"), float("nan"))
        return self.bootstrap.ratio(above, below, bounds)

    def expected(self, values: np.ndarray, weights: np.ndarray) -> Estimate:
        """Mean by weights [N] of values [1 + S, N]: each run's own first, then on each resample; or [1, N] for all.

        As a share: where all or none are found, the interval is the exact one for as many clusters.
        """
        mask = weights > 0
        if not mask.any() or np.isnan(values[0, mask]).any():
            return NOTHING
        value = float(values[0, mask] @ weights[mask] / weights.sum())
        value = next((edge for edge in SHARE if abs(value - edge) < ROUNDING), value)
        every = np.where(mask, values, 0.0) * weights
        drawn = self.draws
        top = (drawn * (every[1:] if len(every) > 1 else every)).sum(axis=1)
        return Estimate(value, *self.bootstrap.interval(value, ratio(top, drawn @ weights), mask, SHARE))

    @cached_property
    def draws(self) -> np.ndarray:
        """How often each run is in each resample. [S, N]"""
        return self.bootstrap.draws()

    def evenly(self, mask: np.ndarray) -> np.ndarray:
        """Weights under which each cluster with a run under `mask` counts the same. [N]"""
        count = np.bincount(self.index[mask], minlength=len(self.names))
        return np.where(mask, 1.0 / np.maximum(1, count[self.index]), 0.0)

"""Thresholds for real runs: set on the healthy runs of all other clusters, in which clusters count the same.

Runs of a cluster share code, data and settings, so that a threshold set on some of them suits the others. A run is
therefore judged by a threshold from which its whole cluster is left out (cross-fitting). A cluster is what a further
run brings one more of: it has the weight of one cluster among those that the threshold is set on, as in conformal
prediction for runs in groups (Lee, Barber and Willett 2023). In the mean over clusters the share of further healthy
runs that is stopped is the budget exactly, in expectation, where the healthy runs of a cluster peak alike or a cluster
has one; where they differ it is below the budget.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.leaderboard.stored_alarms import StoredAlarms
from trainwreck.evaluation.scoring.metrics.recall import firsts_above
from trainwreck.evaluation.scoring.metrics.thresholds import Peaks, Randomised, over_budgets, within_budget


class ClusterPeaks(Peaks):
    """`Peaks` of healthy runs in clusters. weights: [H], 1 over the number of healthy runs in the run's cluster."""

    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """As of `Peaks`, but a further run has the share of a cluster."""
        share, _ = super().shares()
        clusters = (np.vstack([np.ones(len(self.top)), self.draws]) * self.weights).sum(axis=1)
        return share, np.divide(1.0, clusters, out=np.ones(len(clusters)), where=clusters > 0)


@dataclass(frozen=True)
class HealthyRuns:
    """What a detector says of the healthy runs that thresholds are set on.

    top, start: [H], largest and first score. cluster: [H], the number of each run's. crashed: [H] bool. draws: [S, H],
    how often each run is in a resample of clusters.
    """

    top: np.ndarray
    start: np.ndarray
    cluster: np.ndarray
    crashed: np.ndarray
    draws: np.ndarray

    def threshold(self, budget: float, cluster: int) -> Randomised:
        """The threshold for the runs of a cluster: of the others. `UNDEFINED` where no other has a healthy run."""
        return within_budget(self._peaks(self.cluster != cluster), budget)

    def area(self, largest: float) -> Randomised:
        """The threshold whose expected score is the mean over shares stopped from 0 to `largest`, by all clusters."""
        return over_budgets(self._peaks(np.ones(len(self.top), bool)), largest)

    def _peaks(self, chosen: np.ndarray) -> ClusterPeaks:
        _, index, count = np.unique(self.cluster[chosen], return_inverse=True, return_counts=True)
        floor = float(self.start[chosen].min(initial=np.inf))
        return ClusterPeaks(
            self.top[chosen], 1.0 / count[index], self.draws[:, chosen], self.crashed[chosen],
            floor if np.isfinite(floor) else -np.inf,
        )  # fmt: skip


def healthy_runs(of: Sequence[StoredAlarms], cluster: np.ndarray, draws: np.ndarray) -> HealthyRuns:
    """of: what was said of each healthy run. cluster: [H]. draws: [S, H]."""
    return HealthyRuns(
        top=np.array([np.inf if one.crashed else one.scores.max(initial=-np.inf) for one in of], np.float64),
        start=np.array([one.scores[0] if len(one.scores) else np.inf for one in of], np.float64),
        cluster=cluster,
        crashed=np.array([one.crashed for one in of], bool),
        draws=draws,
    )


def firsts_at(of: Sequence[StoredAlarms], threshold: Randomised) -> np.ndarray:
    """First step of each run over each level of a threshold; infinite where there is none. [T, N]"""
    return firsts_above([one.steps for one in of], [one.scores for one in of], threshold.levels)


def expected(hits: np.ndarray, threshold: Randomised) -> np.ndarray:
    """Chance of each run to be hit: with the threshold as it is, then on each resample. hits: [T, N]. [1 + S, N]

    NaN, [1, N], of a threshold that is undefined.
    """
    if np.isnan(threshold.chances).any():
        return np.full((1, hits.shape[1]), np.nan)
    return np.asarray(np.vstack([threshold.chances, threshold.samples]) @ hits)

"""Thresholds that are set on the healthy runs of other clusters keep their budget."""

from collections.abc import Sequence

import numpy as np
import pytest

from trainwreck.evaluation.logs.real_runs.thresholds import HealthyRuns


def healthy(top: Sequence[float], cluster: Sequence[int], start: float = -100.0) -> HealthyRuns:
    many = len(top)
    return HealthyRuns(
        np.array(top, float), np.full(many, start), np.array(cluster), np.zeros(many, bool), np.zeros((0, many))
    )


def chance(runs: HealthyRuns, budget: float, cluster: int, score: float) -> float:
    """That a run of a cluster with this largest score is stopped."""
    threshold = runs.threshold(budget, cluster)
    return float(threshold.chances[threshold.levels < score].sum())


def stopped(runs: HealthyRuns, budget: float) -> float:
    """Share of the healthy runs themselves that is stopped: the mean over clusters."""
    by_cluster = [
        np.mean([chance(runs, budget, one, score) for score in runs.top[runs.cluster == one].tolist()])
        for one in np.unique(runs.cluster).tolist()
    ]
    return float(np.mean(by_cluster))


def test_a_run_is_judged_by_the_other_clusters_by_hand() -> None:
    # Peaks 1, 2, 3 in clusters 0, 1, 2. A run of cluster 3 above all is stopped where U / 3 <= b (1 + 1/3): b = U / 4.
    runs = healthy([1, 2, 3], [0, 1, 2])
    assert chance(runs, 0.05, 3, 3.5) == pytest.approx(0.2, abs=1e-12)
    assert chance(runs, 0.01, 3, 3.5) == pytest.approx(0.04, abs=1e-12)
    # At the peak of one: U (1/3 + 1/3) <= b (4/3). Below it a third of the mass is above, more than the budget.
    assert chance(runs, 0.05, 3, 3.0) == pytest.approx(0.1, abs=1e-12)
    assert chance(runs, 0.05, 3, 2.5) == 0.0
    # A run of cluster 2 is judged by the two others: U / 2 <= b (3/2).
    assert chance(runs, 0.05, 2, 3.0) == pytest.approx(0.15, abs=1e-12)
    assert stopped(runs, 0.05) == pytest.approx(0.05, abs=1e-12)


def test_clusters_count_the_same_by_hand() -> None:
    # A cluster of nine and two of one: each weighs a third, and so does a further run.
    runs = healthy([*[1.0] * 8, 5.0, 2.0, 3.0], [*[0] * 9, 1, 2])
    assert chance(runs, 0.05, 3, 6.0) == pytest.approx(0.2, abs=1e-12)
    # Above 3 there is a ninth of a cluster: 1/27 + U / 3 <= b (4/3).
    assert chance(runs, 0.05, 3, 4.0) == pytest.approx(0.2 - 1 / 9, abs=1e-12)


@pytest.mark.parametrize("budget", [0.05, 0.01])
@pytest.mark.parametrize("clusters", [3, 20, 60])
@pytest.mark.parametrize("levels", [2, 5, 10**9])
def test_the_budget_is_kept_exactly_where_runs_of_a_cluster_peak_alike(
    budget: float, clusters: int, levels: int
) -> None:
    random = np.random.default_rng(clusters)
    cluster = np.repeat(np.arange(clusters), random.integers(1, 7, clusters))
    top = random.integers(1, levels + 1, clusters)[cluster]
    assert stopped(healthy(top.tolist(), cluster.tolist()), budget) == pytest.approx(budget, abs=1e-12)


def test_it_is_not_overspent_where_they_differ() -> None:
    random = np.random.default_rng(1)
    found = []
    for _ in range(40):
        cluster = np.repeat(np.arange(20), random.integers(1, 7, 20))
        found.append(stopped(healthy(random.normal(size=len(cluster)).tolist(), cluster.tolist()), 0.05))
    assert 0.03 < np.mean(found) <= 0.05


def test_no_threshold_is_below_the_lowest_first_score() -> None:
    runs = healthy([1, 1, 1], [0, 1, 2], start=1.0)  # the same of every run, from its first row on
    assert chance(runs, 0.05, 3, 1.0) == 0.0


def test_without_another_cluster_there_is_none() -> None:
    assert np.isnan(healthy([1, 2], [0, 0]).threshold(0.05, 0).chances).all()


def test_resamples_draw_clusters() -> None:
    runs = healthy([1, 2, 3], [0, 1, 2])
    runs = HealthyRuns(runs.top, runs.start, runs.cluster, runs.crashed, np.array([[3.0, 0, 0], [1, 1, 1]]))
    threshold = runs.threshold(0.05, 3)
    # The first resample has cluster 0 three times, and nothing above 1: a run at 2 is stopped as one at 3.5 is by all.
    assert threshold.samples[0, threshold.levels < 2.0].sum() == pytest.approx(0.2, abs=1e-12)
    assert threshold.samples[1] == pytest.approx(threshold.chances, abs=1e-12)


def test_area_by_hand() -> None:
    over = healthy([1, 2, 3], [0, 1, 2]).area(0.1)
    # A run at the largest peak, a third of the mass, is stopped with it in the share x / (1/3): 3 x in the mean to 0.1.
    found = [over.chances[over.levels < score].sum() for score in (3.5, 3.0, 2.5)]
    assert found == pytest.approx([1.0, 0.15, 0.0], abs=1e-12)

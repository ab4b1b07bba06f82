"""Resampling by twin set: exactness where it is certain, coverage where it is not."""

import math

import numpy as np
import pytest

from trainwreck.evaluation.scoring.metrics.bootstrap import Bootstrap, strata

BLANK = np.array([""] * 40)


def plain(clusters: np.ndarray, **options: int) -> Bootstrap:
    blank = np.array([""] * len(clusters))
    return Bootstrap(clusters, blank, blank, **options)


def test_a_resample_has_as_many_clusters_of_each_stratum() -> None:
    cluster = np.repeat(np.arange(12), 2)
    cause = np.repeat(["a"] * 6 + ["b"] * 6, 2)
    boot = Bootstrap(cluster, cause, np.array([""] * 24), resamples=50)
    assert (boot.weights[:, :6].sum(axis=1) == 6).all()
    assert (boot.weights[:, 6:].sum(axis=1) == 6).all()
    assert boot.weights.std() > 0


def test_runs_of_a_cluster_stay_together() -> None:
    boot = plain(np.array([7, 7, 3, 3, 3]), resamples=30)
    counts = boot.sums(np.eye(5))
    assert (counts[:, 0] == counts[:, 1]).all()
    assert (counts[:, 2] == counts[:, 4]).all()
    assert (counts[:, 0] != counts[:, 2]).any()


def test_strata_are_the_make_up_of_a_cluster_and_small_ones_are_pooled() -> None:
    cluster = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6])
    cause = np.array(["", "a"] * 5 + ["b", ""])
    severity = np.array([""] * 12)
    assert strata(cluster, cause, severity).tolist()[:5] == [strata(cluster, cause, severity)[0]] * 5
    assert strata(cluster, cause, severity).tolist()[5:] == [-1, -1]
    severity[1] = "subtle"  # cluster 0 is now of its own kind, and four are too few
    assert strata(cluster, cause, severity).tolist() == [-1] * 7


def test_mean_by_hand() -> None:
    boot = plain(np.arange(40))
    values, mask = np.arange(40.0), np.arange(40) < 20
    found = boot.mean(values, mask)
    assert found.value == pytest.approx(9.5, abs=1e-12)
    assert found.low < 9.5 < found.high
    assert boot.mean(np.full(40, 3.0), mask) == (3.0, 3.0, 3.0)
    assert math.isnan(boot.mean(values, np.zeros(40, bool)).value)


def test_macro_by_hand() -> None:
    cause = np.array(["a"] * 30 + ["b"] * 10)
    values = np.concatenate([np.ones(15), np.zeros(15), np.ones(10)])
    found = plain(np.arange(40)).macro(values, cause, np.ones(40, bool))
    assert found.value == pytest.approx((0.5 + 1.0) / 2, abs=1e-12)
    assert found.low < 0.75 < found.high
    assert math.isnan(plain(np.arange(40)).macro(values, cause, np.zeros(40, bool)).value)


def test_the_same_runs_give_the_same_resamples() -> None:
    first, second = plain(np.arange(20)), plain(np.arange(20))
    assert (first.weights == second.weights).all()
    assert (first.weights != plain(np.arange(20), seed=1).weights).any()


def test_a_twin_set_counts_once() -> None:
    """Ten copies of each run are no more evidence than one: the interval is that of the clusters."""
    random = np.random.default_rng(3)
    values = random.random(30)
    alone = plain(np.arange(30)).mean(values, np.ones(30, bool))
    copied = plain(np.repeat(np.arange(30), 10)).mean(np.repeat(values, 10), np.ones(300, bool))
    assert (copied.low, copied.high) == (pytest.approx(alone.low), pytest.approx(alone.high))


def test_coverage_by_simulation() -> None:
    """Intervals of 95 % hold the truth in about 95 % of simulated data sets of 60 twin sets of 3 runs."""
    random = np.random.default_rng(0)
    cluster = np.repeat(np.arange(60), 3)
    boot = plain(cluster)
    trials, held = 400, 0
    for _ in range(trials):
        # Recall depends on the twin set, so runs of one are alike; its mean is 0.6.
        chance = np.repeat(random.beta(1.2, 0.8, 60), 3)
        found = boot.mean((random.random(180) < chance).astype(float), np.ones(180, bool))
        held += found.low <= 0.6 <= found.high
    assert 0.92 <= held / trials <= 0.98


def test_four_twin_sets_cover_too_little() -> None:
    """As the notes of a board say."""
    random = np.random.default_rng(0)
    boot = plain(np.repeat(np.arange(4), 3))
    trials, held = 200, 0
    for _ in range(trials):
        chance = np.repeat(random.beta(1.2, 0.8, 4), 3)
        found = boot.mean((random.random(12) < chance).astype(float), np.ones(12, bool))
        held += found.low <= 0.6 <= found.high
    assert held / trials < 0.9


def test_ignoring_twin_sets_would_cover_too_little() -> None:
    random = np.random.default_rng(0)
    boot = plain(np.arange(180))
    held = 0
    for _ in range(200):
        chance = np.repeat((random.random(60) < 0.6).astype(float), 3)
        found = boot.mean(chance, np.ones(180, bool))
        held += found.low <= 0.6 <= found.high
    assert held / 200 < 0.85


def test_means_are_the_mean_of_each_column() -> None:
    random = np.random.default_rng(4)
    boot, mask = plain(np.repeat(np.arange(12), 3)), random.random(36) < 0.7
    values = random.random((36, 3))
    found = boot.means(values, mask)
    for i in range(3):
        assert [part[i] for part in found] == pytest.approx(list(boot.mean(values[:, i], mask)), abs=1e-12)
    assert np.isnan(boot.means(values, np.zeros(36, bool))).all()


def test_counts_are_kept_by_shape_and_content() -> None:
    boot, mask = plain(np.arange(6), resamples=20), np.arange(6) < 3
    assert boot.counts(mask).tolist() == boot.sums(mask).tolist()
    assert boot.counts(mask[:, None]).shape == (20, 1)
    assert boot.counts(~mask).tolist() == boot.sums(~mask).tolist()
    assert boot.counts(mask) is boot.counts(mask.copy())

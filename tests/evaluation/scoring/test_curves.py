"""Metric 7: operating curves."""

import numpy as np
import pytest

from trainwreck.evaluation.scoring.breakdown import frontier, operating_curve, stop_rate

INF = np.inf


def test_curve_by_hand() -> None:
    # Thresholds 5, 3, 2, 1, -inf. Found in [low, high): run 0 in [1, 5), run 1 in [2, 3).
    stopped, recall = operating_curve(np.array([1.0, 2.0]), np.array([5.0, 3.0]), np.array([3.0, -INF]))
    assert stopped.tolist() == [0.0, 0.0, 0.5, 0.5, 0.5]
    assert recall.tolist() == [0.0, 0.5, 1.0, 0.5, 0.0]


@pytest.mark.parametrize("transform", [np.exp, np.cbrt, lambda x: 3.0 * x - 7.0])
def test_a_monotone_transform_leaves_the_curve(transform: object) -> None:
    random = np.random.default_rng(0)
    low, peaks = random.normal(size=30), random.normal(size=40)
    high = low + np.abs(random.normal(size=30))
    assert callable(transform)
    before, after = operating_curve(low, high, peaks), operating_curve(*map(transform, (low, high, peaks)))
    assert before[0].tolist() == after[0].tolist()
    assert before[1].tolist() == after[1].tolist()


def test_a_constant_score_finds_nothing_within_any_budget_under_one() -> None:
    stopped, recall = operating_curve(np.full(9, 3.0), np.full(9, 3.0), np.full(7, 3.0))
    assert recall[stopped <= 0.99].max(initial=0.0) == 0.0


def test_frontier_by_hand() -> None:
    stopped = np.array([0.0, 0.0, 0.5, 0.5, 1.0, 1.0])
    recall = np.array([0.1, 0.3, 0.2, 0.6, 0.4, 0.6])
    found = frontier(stopped, recall)
    assert (found[0].tolist(), found[1].tolist()) == ([0.0, 0.5], [0.3, 0.6])
    assert [recall[stopped <= share].max() for share in found[0]] == found[1].tolist()


def test_stop_rate_by_hand() -> None:
    # Two thresholds, three stretches of 10, 20 and 5 healthy steps. The first alarm ends what is watched.
    first = np.array([[INF, 4.0, 7.0], [INF, INF, INF]])
    found = stop_rate(first, np.array([10, 20, 5]), 1000)
    assert found == pytest.approx([1000 * 1 / (10 + 5 + 5), 0.0], abs=1e-12)
    assert np.isnan(stop_rate(first[:, :0], np.array([]), 1000)).all()

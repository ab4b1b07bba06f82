"""Metric 2, by hand."""

import math

import numpy as np
import pytest

from trainwreck.evaluation.scoring.metrics.recall import first_above, freeze_threshold, in_time, peak, threshold_range


def test_in_time_is_from_the_onset_and_before_the_point_of_no_return() -> None:
    first = np.array([19.0, 20.0, 79.0, 80.0, np.inf])
    assert in_time(first, np.full(5, 20.0), np.full(5, 80.0)).tolist() == [False, True, True, False, False]


@pytest.mark.parametrize(
    ("peaks", "budget", "threshold"),
    [
        ([5.0, 1.0, 4.0, 2.0, 3.0], 0.0, 5.0),
        ([5.0, 1.0, 4.0, 2.0, 3.0], 0.2, 4.0),
        ([5.0, 1.0, 4.0, 2.0, 3.0], 0.39, 4.0),
        ([5.0, 1.0, 4.0, 2.0, 3.0], 0.4, 3.0),
        ([1.0, 1.0, 0.0, 0.0], 0.25, 1.0),  # a bare alarm over budget: nothing exceeds 1
        ([1.0, 0.0, 0.0, 0.0], 0.25, 0.0),  # and within it: every alarm counts
        ([7.0] * 10, 0.5, 7.0),  # a constant
        ([1.0], 1.0, -math.inf),
    ],
)
def test_threshold_by_hand(peaks: list[float], budget: float, threshold: float) -> None:
    assert freeze_threshold(np.array(peaks), budget) == threshold


def test_budget_is_kept_exactly_where_the_product_rounds_down() -> None:
    assert 0.29 * 100 < 29  # in floating point
    peaks = np.arange(100.0)
    assert (peaks > freeze_threshold(peaks, 0.29)).sum() == 29


def test_no_calibration_runs_no_threshold() -> None:
    assert math.isnan(freeze_threshold(np.array([]), 0.01))


def test_first_above() -> None:
    steps = [np.array([0, 10, 20]), np.array([0, 1, 2]), np.array([], int)]
    scores = [np.array([1.0, 5.0, 9.0]), np.array([5.0, 5.0, 4.0]), np.array([])]
    assert first_above(steps, scores, 4.9).tolist() == [10.0, 0.0, np.inf]
    assert first_above(steps, scores, 5.0).tolist() == [20.0, np.inf, np.inf]
    assert first_above(steps, scores, math.nan).tolist() == [np.inf] * 3


def test_peak() -> None:
    assert peak([np.array([1.0, 3.0, 2.0]), np.array([])]).tolist() == [3.0, -np.inf]


def test_threshold_range_says_when_a_run_is_detected_in_time() -> None:
    random = np.random.default_rng(0)
    steps = [np.arange(0, 100, 3)] * 50
    scores = [random.integers(0, 9, len(steps[0])).astype(float) for _ in steps]
    onset = random.integers(0, 60, 50).astype(float)
    no_return = onset + random.integers(1, 40, 50)
    low, high = threshold_range(steps, scores, onset, no_return)
    for threshold in np.arange(-1.0, 10.0, 0.5):
        found = in_time(first_above(steps, scores, threshold), onset, no_return)
        assert ((low <= threshold) & (threshold < high)).tolist() == found.tolist()

"""Metric 2, by hand."""

import numpy as np

from trainwreck.evaluation.scoring.metrics.recall import firsts_above, in_time, peak, threshold_range


def test_in_time_is_from_the_onset_and_before_the_point_of_no_return() -> None:
    first = np.array([19.0, 20.0, 79.0, 80.0, np.inf])
    assert in_time(first, np.full(5, 20.0), np.full(5, 80.0)).tolist() == [False, True, True, False, False]


def test_firsts_above() -> None:
    steps = [np.array([0, 10, 20]), np.array([0, 1, 2]), np.array([], int)]
    scores = [np.array([1.0, 5.0, 9.0]), np.array([5.0, 5.0, 4.0]), np.array([])]
    found = firsts_above(steps, scores, np.array([4.9, 5.0, np.inf, -np.inf]))
    assert found.tolist() == [[10.0, 0.0, np.inf], [20.0, np.inf, np.inf], [np.inf] * 3, [0.0, 0.0, np.inf]]


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
        found = in_time(firsts_above(steps, scores, np.array([threshold]))[0], onset, no_return)
        assert ((low <= threshold) & (threshold < high)).tolist() == found.tolist()

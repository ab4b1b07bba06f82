"""Metric 2, by hand."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

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


@given(
    runs=st.lists(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0, math.inf]), max_size=6), max_size=5),
    levels=st.lists(st.sampled_from([-math.inf, -1.0, 0.2, 0.5, 2.0, math.inf]), max_size=4),
    ends=st.tuples(st.integers(0, 12), st.integers(0, 12)),
)
def test_all_runs_at_once_are_as_each_run_alone(
    runs: list[list[float]], levels: list[float], ends: tuple[int, int]
) -> None:
    scores = [np.array(run, dtype=np.float64) for run in runs]
    steps = [np.arange(len(run)) * 2 for run in runs]
    onset, no_return = (np.full(len(runs), float(end)) for end in ends)
    found = firsts_above(steps, scores, np.array(levels, dtype=np.float64))
    low, high = threshold_range(steps, scores, onset, no_return)
    assert found.shape == (len(levels), len(runs))
    for i, run in enumerate(runs):
        for j, level in enumerate(levels):
            assert found[j, i] == next((2.0 * at for at, score in enumerate(run) if score > level), math.inf)
        assert peak(scores)[i] == max(run, default=-math.inf)
        for largest, end in ((low, ends[0]), (high, ends[1])):
            assert largest[i] == max((score for at, score in enumerate(run) if 2 * at < end), default=-math.inf)

"""Metric 2: in-time recall, at the published default and at a budget of false stops."""

from collections.abc import Sequence

import numpy as np


def in_time(first: np.ndarray, onset: np.ndarray, no_return: np.ndarray) -> np.ndarray:
    """1[s <= a < p]: the first alarm comes under the fault and while the run can still be saved. [N] bool

    An alarm before the onset earns nothing, and nor does one after it: the run was stopped.
    """
    return np.asarray((onset <= first) & (first < no_return))


def peak(scores: Sequence[np.ndarray]) -> np.ndarray:
    """Largest score of each run, -inf for a run without rows. [N]"""
    return np.array([run.max() if len(run) else -np.inf for run in scores], dtype=np.float64)


def firsts_above(steps: Sequence[np.ndarray], scores: Sequence[np.ndarray], thresholds: np.ndarray) -> np.ndarray:
    """Step at which each run's score first exceeds each threshold [T]; inf where it never does. [T, N]"""
    first = np.full((len(thresholds), len(steps)), np.inf)
    for i, (at, values) in enumerate(zip(steps, scores, strict=True)):
        above = np.maximum.accumulate(values).searchsorted(thresholds, side="right")
        found = above < len(at)
        first[found, i] = at[above[found]]
    return first


def threshold_range(
    steps: Sequence[np.ndarray], scores: Sequence[np.ndarray], onset: np.ndarray, no_return: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The thresholds at which each run is detected in time: low <= threshold < high. [N], [N]

    low: the largest score before the onset. high: the largest before the point of no return.
    """
    low, high = np.full(len(steps), -np.inf), np.full(len(steps), -np.inf)
    for i, (at, values) in enumerate(zip(steps, scores, strict=True)):
        before, until = np.searchsorted(at, [onset[i], no_return[i]])
        low[i] = values[:before].max(initial=-np.inf)
        high[i] = values[:until].max(initial=-np.inf)
    return low, high

"""Metric 2: in-time recall, at the published default and at a budget of false stops."""

from collections.abc import Sequence
from math import floor

import numpy as np


def in_time(first: np.ndarray, onset: np.ndarray, no_return: np.ndarray) -> np.ndarray:
    """1[s <= a < p]: the first alarm comes under the fault and while the run can still be saved. [N] bool

    An alarm before the onset earns nothing, and nor does one after it: the run was stopped.
    """
    return np.asarray((onset <= first) & (first < no_return))


def peak(scores: Sequence[np.ndarray]) -> np.ndarray:
    """Largest score of each run, -inf for a run without rows. [N]"""
    return np.array([run.max() if len(run) else -np.inf for run in scores], dtype=np.float64)


def freeze_threshold(peaks: np.ndarray, budget: float) -> float:
    """The lowest threshold that stops at most `budget` of the calibration runs.

    peaks: [H], the largest score of each healthy calibration run; a run is stopped where its score
    *exceeds* the threshold. That is the (m+1)-th largest peak, m = floor(budget * H). Where more
    than m runs tie at the top (a bare alarm, a constant), nothing exceeds it: the detector cannot
    be run within the budget, and its recall there is 0. NaN without calibration runs.
    """
    if not len(peaks):
        return float("nan")
    allowed = floor(budget * len(peaks) + 1e-9)
    return float(np.sort(peaks)[::-1][allowed]) if allowed < len(peaks) else -np.inf


def first_above(steps: Sequence[np.ndarray], scores: Sequence[np.ndarray], threshold: float) -> np.ndarray:
    """Step at which each run's score first exceeds the threshold; inf where it never does. [N]"""
    first = np.full(len(steps), np.inf)
    for i, (at, values) in enumerate(zip(steps, scores, strict=True)):
        above = values > threshold
        if above.any():
            first[i] = at[above.argmax()]
    return first


def firsts_above(steps: Sequence[np.ndarray], scores: Sequence[np.ndarray], thresholds: np.ndarray) -> np.ndarray:
    """`first_above` for many thresholds. thresholds: [T]. Returns [T, N]."""
    first = np.full((len(thresholds), len(steps)), np.inf)
    for i, (at, values) in enumerate(zip(steps, scores, strict=True)):
        if len(at):
            above = np.searchsorted(np.maximum.accumulate(values), thresholds, side="right")
            first[:, i] = np.append(at, np.inf)[above]
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

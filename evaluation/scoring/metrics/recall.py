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
    return _largest(np.concatenate([*scores, np.zeros(0)]), _sizes(scores))


def firsts_above(steps: Sequence[np.ndarray], scores: Sequence[np.ndarray], thresholds: np.ndarray) -> np.ndarray:
    """Step at which each run's score first exceeds each threshold [T]; inf where it never does. [T, N]"""
    order, count, sizes = np.argsort(thresholds, kind="stable"), len(thresholds), _sizes(scores)
    run = np.repeat(np.arange(len(sizes)), sizes)
    # Of each row: how many thresholds the score exceeds, then how many it or an earlier row of the run did.
    exceeded = np.searchsorted(thresholds[order], np.concatenate([*scores, np.zeros(0)]), side="left")
    reached = np.maximum.accumulate(exceeded + run * (count + 1)) - run * (count + 1)
    ends = np.cumsum(sizes) + np.arange(len(sizes))  # a place behind each run, for thresholds that it never exceeds
    rows = np.arange(len(run)) + run
    until, step = np.full(len(run) + len(sizes), count), np.full(len(run) + len(sizes), np.inf)
    until[rows], step[rows] = reached, np.concatenate([*steps, np.zeros(0)])
    begin = np.concatenate([[0], ends[:-1] + 1])[: len(sizes)]
    new = np.diff(until, prepend=0)
    new[begin] = until[begin]
    first = np.empty((count, len(sizes)))
    first[order] = np.repeat(step, new).reshape(len(sizes), count).T
    return first


def threshold_range(
    steps: Sequence[np.ndarray], scores: Sequence[np.ndarray], onset: np.ndarray, no_return: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The thresholds at which each run is detected in time: low <= threshold < high. [N], [N]

    low: the largest score before the onset. high: the largest before the point of no return.
    """
    sizes = _sizes(scores)
    at, values = np.concatenate([*steps, np.zeros(0)]), np.concatenate([*scores, np.zeros(0)])
    low, high = (_largest(np.where(at < np.repeat(end, sizes), values, -np.inf), sizes) for end in (onset, no_return))
    return low, high


def _sizes(runs: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([len(run) for run in runs], dtype=np.int64)


def _largest(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Largest of the values of each run, which are one after another; -inf for a run without any. [N]"""
    found = np.full(len(sizes), -np.inf)
    starts = np.cumsum(sizes) - sizes
    if len(values):
        found[sizes > 0] = np.maximum.reduceat(values, starts[sizes > 0])
    return found

"""Metric 7: curves over all thresholds, which need no threshold and no default."""

import numpy as np


def operating_curve(low: np.ndarray, high: np.ndarray, peaks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """In-time recall against the share of healthy runs stopped, over every threshold.

    low, high: [F], `recall.threshold_range` of the failing runs. peaks: [H], largest scores of the
    healthy runs. Returns the share stopped and the recall, [K] each, by falling threshold, from
    (0, .) up. Recall need not rise with it: a lower threshold also stops failing runs too soon.
    """
    thresholds = np.unique(np.concatenate([low, high, peaks]))[::-1]
    stopped = (peaks[None, :] > thresholds[:, None]).mean(axis=1) if len(peaks) else np.zeros(len(thresholds))
    found = (low[None, :] <= thresholds[:, None]) & (thresholds[:, None] < high[None, :])
    return stopped, found.mean(axis=1) if len(low) else np.zeros(len(thresholds))


def frontier(stopped: np.ndarray, recall: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The steps of the best recall at a share stopped of at most x: where it rises, and to what. [J], [J]

    stopped, recall: [K], of `operating_curve`. As `best_within`, a curve to look at.
    """
    order = np.lexsort((-recall, stopped))
    best = np.maximum.accumulate(recall[order])
    rises = np.diff(best, prepend=-1.0) > 0
    return stopped[order][rises], best[rises]


def stop_rate(first: np.ndarray, end: np.ndarray, per: float) -> np.ndarray:
    """False alarms for `per` healthy steps watched, at each of T thresholds, under the stop protocol. [T]

    first: [T, N], first alarm of each run. end: [N], the step before which each run is healthy. A stretch is watched
    to its end, or to the alarm that stops it. NaN where nothing is watched.
    """
    stops, watched = (first < end).sum(axis=1), np.minimum(first + 1, end).sum(axis=1)
    return np.asarray(np.divide(per * stops, watched, out=np.full(len(stops), np.nan), where=watched > 0))


def best_within(stopped: np.ndarray, recall: np.ndarray, budgets: np.ndarray) -> np.ndarray:
    """Largest recall at a share stopped of at most each budget. [B]

    Unlike metric 2 this picks the threshold on the runs it is measured on: a curve to look at, not
    a score to claim.
    """
    return np.array([recall[stopped <= budget].max(initial=0.0) for budget in budgets])

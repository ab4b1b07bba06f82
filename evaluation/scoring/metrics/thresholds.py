"""Thresholds within a budget of false stops, kept in expectation by drawing between neighbouring ones.

A run is stopped where its score exceeds the threshold. Scores tie: a bare alarm, a score that is cut, a rule that
is either on or off. No single threshold then stops just 5 % of healthy runs, so a threshold is drawn once a run from a
few (the randomised test of Neyman and Pearson 1933). Nothing is drawn here: every score is the expectation over them.

With x a score, W(x) the share of calibration runs that peak above it and e(x) the share that peak at it, a
further healthy run is stopped at x where its smoothed conformal p-value (Vovk, Gammerman and Shafer 2005)

    p(x) = (W(x) + U (e(x) + m)) / (1 + m),    U uniform on 0 to 1, m the share of a calibration run,

is at most the budget. p is uniform for a healthy run that is exchangeable with the calibration runs, so the expected
stop rate is the budget, for few calibration runs and for ties as well. For one U this is a threshold. It is never
below the lowest score with which a calibration run begins: a run of which nothing is said is not stopped to spend a
budget, and a rule that is on or off stands between never and its default.
"""

from typing import NamedTuple, Self

import numpy as np

AT_FIRST = 64  # distinct peaks among which the levels of a threshold are sought first


class Randomised(NamedTuple):
    """Thresholds and the chance of each.

    levels: [T]; a run is stopped at the first score above. +inf stops none; a level just below a score stops at it.
    chances: [T], they sum to 1. samples: [S, T], the same on each resample of the calibration runs; [1, T] where the
    thresholds do not depend on them.
    """

    levels: np.ndarray
    chances: np.ndarray
    samples: np.ndarray

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Randomised) and all(map(np.array_equal, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self.levels.tolist()))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def exact(self) -> Self:
        """Without the resamples, and without levels that only they have."""
        used = ~(self.chances <= 0)  # that of `UNDEFINED` stays
        return self._replace(levels=self.levels[used], chances=self.chances[used], samples=np.zeros((0, used.sum())))


UNDEFINED = Randomised(np.array([np.inf]), np.array([np.nan]), np.array([[np.nan]]))


class Peaks(NamedTuple):
    """The healthy runs that a threshold is set on.

    top: [H], largest score of each. weights: [H], what share of the measured population each stands for. draws: [S, H],
    how often each is in a resample. failed: [H] bool, runs on which the detector failed, stopped at every threshold.
    floor: no threshold is below it. known: `shares` of these weights and draws, which all detectors have in common.
    """

    top: np.ndarray
    weights: np.ndarray
    draws: np.ndarray
    failed: np.ndarray
    floor: float = -np.inf
    known: tuple[np.ndarray, np.ndarray] | None = None

    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """Of all runs first, then of each resample: each run's share of the mass, and the share of a further run.
        [1 + S, H], [1 + S]"""
        return shares(self.weights, self.draws) if self.known is None else self.known


def shares(weights: np.ndarray, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As of `Peaks`. weights: [H]; draws: [S, H]."""
    every = np.vstack([np.ones(len(weights)), draws]) * weights
    total = every.sum(axis=1)
    share = np.divide(every, total[:, None], out=np.zeros_like(every), where=total[:, None] > 0)
    one = np.divide((every * weights).sum(axis=1), total**2, out=np.ones(len(every)), where=total > 0)
    return share, one


def within_budget(peaks: Peaks, budget: float) -> Randomised:
    """The randomised threshold that stops a further healthy run with chance `budget`; `UNDEFINED` without runs.

    >>> ones, no = np.ones(9), np.zeros(9, dtype=bool)
    >>> tied = within_budget(Peaks(ones, ones, ones[None], no, floor=0.0), 0.05)
    >>> float(tied.chances[tied.levels < 1].sum().round(9))  # a run that peaks at 1 as all others is stopped
    0.05
    """
    if not peaks.weights.sum() > 0:
        return UNDEFINED
    share, one = peaks.shares()
    allowed = budget * (1.0 + one)
    levels, above, at, lost = _ladder(peaks, share, allowed)
    one, left = one[:, None], allowed[:, None] - above
    # Largest U at which a score between two peaks, and one at a peak, is stopped.
    between = np.clip(np.hstack([allowed[:, None] - lost[:, None], left - at]) / one, 0.0, 1.0)
    on = np.clip(left / (at + one), 0.0, 1.0)
    falling = np.zeros((len(share), len(levels) + 1))
    falling[:, 0], falling[:, 1::2], falling[:, 2:-1:2] = 1.0, between, on
    return _randomised(levels, np.clip(falling[:, :-1] - falling[:, 1:], 0.0, 1.0))


def over_budgets(peaks: Peaks, largest: float) -> Randomised:
    """The threshold whose expected score is the area under the curve of that score over the share stopped.

    The share stopped is uniform on 0 to `largest`, and exactly that of these runs themselves. `UNDEFINED` without runs.
    """
    if not peaks.weights.sum() > 0:
        return UNDEFINED
    share, _ = peaks.shares()
    levels, above, at, lost = _ladder(peaks, share, np.full(len(share), largest))
    spent = np.clip(largest - above, 0.0, at)
    inclusive = np.divide(spent**2, 2.0 * at, out=np.zeros_like(at), where=at > 0)
    chances = np.zeros((len(share), len(levels)))
    chances[:, 1:-1:2], chances[:, 2:-1:2] = (spent - inclusive) / largest, inclusive / largest
    chances[:, 0] = np.minimum(lost, largest) / largest
    chances[:, -1] = 1.0 - chances.sum(axis=1)
    return _randomised(levels, np.clip(chances, 0.0, 1.0))


def _ladder(
    peaks: Peaks, share: np.ndarray, allowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The levels above and at each distinct peak, the highest first, as far down as a budget can reach.

    share: [S, H]. allowed: [S]. Returns levels [2 K + 2] from "none" to the floor, mass above and mass at each peak
    [S, K], and the mass of the runs that every level stops [S].
    """
    lost = share[:, peaks.failed].sum(axis=1)
    chosen = np.flatnonzero(~peaks.failed & (peaks.top > peaks.floor))
    values, code = np.unique(-peaks.top[chosen], return_inverse=True)
    order = np.argsort(code, kind="stable")
    starts = np.searchsorted(code[order], np.arange(len(values) + 1))
    kept, some = 0, AT_FIRST
    at = above = np.zeros((len(share), 0))
    while len(values):  # a budget reaches a few of the levels only
        some = min(some, len(values))
        at = np.add.reduceat(share[:, chosen[order[: starts[some]]]], starts[:some], axis=1)
        above = lost[:, None] + np.cumsum(at, axis=1) - at
        kept = int((above <= allowed[:, None]).any(axis=0).sum())
        if kept < some or some == len(values):
            break
        some *= 4
    levels = np.full(2 * kept + 2, np.inf)
    levels[1:-1:2], levels[2:-1:2] = -values[:kept], np.nextafter(-values[:kept], -np.inf)
    levels[-1] = peaks.floor
    return levels, above[:, :kept], at[:, :kept], lost


def _randomised(levels: np.ndarray, chances: np.ndarray) -> Randomised:
    used = (chances > 0).any(axis=0)
    return Randomised(levels[used], chances[0, used], chances[1:, used])

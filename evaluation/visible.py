"""When a failure becomes visible (v): measured against the spread of healthy runs.

A faulty run and its twin share seed and data, so they differ by nothing but the fault; healthy runs
of other seeds differ by everything that chance does. The failure is visible in a signal at the first
step at which the faulty run is further from its twin than healthy runs are from each other:

    d(t) = |x_run(t) - x_twin(t)|                        of a component of the signal
    E(t) = range of that component over the healthy runs but the one furthest out, largest within
           `WINDOW` steps of t (of the validation loss, taken every so many steps: at t), and at
           least `FLOOR` of the largest that any component of the signal ever has
    visible where  d(t) > lambda * kappa * E(t)          in any component

Signals marked `positive` are compared by their logarithm. Of 8 healthy runs one may lag far behind; a
range that it set alone would hide harm that is plain beside all others, so it counts in lambda only.

Each healthy run in turn is held against the others: r is how far it is at most from any of them, in
units of their E. kappa, one a signal, is the largest r. lambda, one for all signals, is the level that
r / kappa (kappa without that run), at its largest over the signals, stays under on all but
`FALSE_POSITIVES` of healthy runs: a conformal quantile (Vovk et al. 2005), so the rate holds for all
signals together, whatever their distributions. Without the floor, one signal that is all but the same
in every healthy run for a while sets lambda for all.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter1d

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.schema import EVALUATIONS, SIGNALS, Role, Signal
from trainwreck.evaluation.trace import Trace

WINDOW = 10  # steps
FLOOR = 0.5
FEWEST = 8  # healthy runs
FALSE_POSITIVES = 1 / (FEWEST + 1)  # the least that so few runs can vouch for
SMALLEST = 1e-6  # a spread under this is rounding

OUTCOMES = tuple(s for s in SIGNALS if s.role is Role.OUTCOME)


@dataclass(frozen=True)
class Spread:
    """The spread of healthy runs of one base. kappa: signal to level; joint: lambda; runs: n."""

    levels: dict[str, np.ndarray]  # E, [S, K] (at evaluated steps only for the validation loss)
    kappa: dict[str, float]
    joint: float
    runs: int

    @property
    def false_positive_rate(self) -> float:
        """Probability that a further healthy run is called visible."""
        return 1 - _rank(self.runs) / (self.runs + 1)


def spread(healthy: list[Trace]) -> Spread:
    """Estimate the spread from healthy runs of one base, at least `FEWEST` of them."""
    if len(healthy) < FEWEST:
        raise InputError(f"healthy runs of one base: {len(healthy)} are too few to label; allowed: {FEWEST} or more")
    n = len(healthy)
    levels, kappas, excess = {}, {}, np.ones((n, len(OUTCOMES)))
    for j, signal in enumerate(OUTCOMES):
        values = _stacked([comparable(trace, signal) for trace in healthy])
        values[~np.isfinite(values)] = np.nan  # left out: an infinite range would undo the calibration
        window = 0 if signal.name in EVALUATIONS else WINDOW
        levels[signal.name] = _envelope(values, window)
        ratios = _distances_to_others(values, window)
        kappas[signal.name] = max(1.0, float(ratios.max()))
        without = [max(1.0, *_distances_to_others(np.delete(values, i, 0), window)) for i in range(n)]
        excess[:, j] = ratios / without
    joint = max(1.0, float(np.sort(excess.max(1))[_rank(n) - 1]))
    return Spread(levels, kappas, joint, n)


def _rank(n: int) -> int:
    """Which of n healthy runs, from the least excess to the largest, sets the level."""
    return min(n, math.ceil((n + 1) * (1 - FALSE_POSITIVES) - 1e-9))


def visible_steps(run: Trace, twin: Trace, healthy: Spread, onset: int) -> dict[str, int]:
    """First visible step of every outcome signal that becomes visible; steps from the onset on."""
    found: dict[str, int] = {}
    for signal in OUTCOMES:
        length = min(len(run), len(twin))
        if signal.name in EVALUATIONS:
            steps = np.flatnonzero(run.evaluated[:length] & twin.evaluated[:length])
        else:
            steps = np.arange(length)
        mine, other = (comparable(trace, signal)[: len(steps)] for trace in (run, twin))
        level = healthy.levels[signal.name][: len(steps)]
        above = departs(mine, other, level * healthy.kappa[signal.name] * healthy.joint) & (steps >= onset)
        if above.any():
            found[signal.name] = int(steps[above.argmax()])
    return found


def departs(mine: np.ndarray, other: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Steps at which any component is further from the other run's than its level, bool [S].

    Not finite where the other run is finite is further than any level.
    """
    known = np.isfinite(other)
    with np.errstate(invalid="ignore"):
        far = np.abs(mine - other) > level
    return np.asarray(((far | ~np.isfinite(mine)) & known).any(1))


def comparable(trace: Trace, signal: Signal) -> np.ndarray:
    """The values of a signal on the scale it is compared on, [S, K]; evaluated steps of the validation loss."""
    values = trace.signals[signal.name].astype(np.float64)
    values = values.reshape(len(values), -1)
    if signal.name in EVALUATIONS:
        values = values[trace.evaluated]
    if signal.positive:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.log(np.maximum(values, 1e-30))
    return values


def _stacked(curves: list[np.ndarray]) -> np.ndarray:
    """Curves [S, K] as [N, S, K]; NaN where a run ended before the longest did."""
    longest = max(len(curve) for curve in curves)
    return np.stack([np.pad(c, ((0, longest - len(c)), (0, 0)), constant_values=np.nan) for c in curves])


def _envelope(values: np.ndarray, window: int) -> np.ndarray:
    """Largest range within `window` entries, [S, K], of values [N, S, K] but the furthest out; NaN is left out."""
    known = np.sort(values, axis=0)  # NaN goes last
    count = np.isfinite(values).sum(0)

    def ranked(place: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.take_along_axis(known, np.clip(place, 0, len(values) - 1)[None], 0)
        return np.asarray(found[0])

    zero = np.zeros_like(count)
    without_highest = ranked(count - 2) - ranked(zero)
    without_lowest = ranked(count - 1) - ranked(zero + 1)
    width = np.where(count > 2, np.minimum(without_highest, without_lowest), 0.0)
    widest: np.ndarray = maximum_filter1d(width, 2 * window + 1, axis=0, mode="nearest")
    floored: np.ndarray = np.maximum(widest, np.maximum(SMALLEST, FLOOR * widest.max(initial=0.0)))
    return floored


def _distances_to_others(values: np.ndarray, window: int) -> np.ndarray:
    """How far each run is at most from any other, in units of the others' envelope, [N]."""
    ratios = np.zeros(len(values))
    for i, mine in enumerate(values):
        others = np.delete(values, i, 0)
        gap = np.abs(others - mine)
        ratios[i] = (np.where(np.isnan(gap), 0.0, gap).max(0) / _envelope(others, window)).max(initial=0.0)
    return ratios

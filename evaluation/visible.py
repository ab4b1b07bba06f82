"""When a failure becomes visible (v): measured against the spread of healthy runs.

A faulty run and its twin share seed and data, so they differ by nothing but the fault; healthy runs
of other seeds differ by everything that chance does. The failure is visible in a signal at the first
step at which the faulty run is further from its twin than healthy runs are from each other:

    d(t) = |x_run(t) - x_twin(t)|                        of a component of the signal
    E(t) = range of that component over the healthy runs, largest within `WINDOW` steps of t
    visible where  d(t) > kappa * lambda * E(t)          in any component

Signals marked `positive` are compared by their logarithm. kappa, one a signal, is the largest ratio
that a healthy run reaches when it is held against the spread of the others (leave one out). lambda,
one for all signals, makes the false-positive rate hold for all signals together: the largest excess
over a kappa that was itself estimated without the run. With n healthy runs a further one exceeds
every signal's level with probability about 1 / (n + 1).
"""

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter1d

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.schema import SIGNALS, Role, Signal
from trainwreck.evaluation.trace import Trace

WINDOW = 10  # steps
FEWEST = 8  # healthy runs
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
        return 1 / (self.runs + 1)


def spread(healthy: list[Trace]) -> Spread:
    """Estimate the spread from healthy runs of one base, at least `FEWEST` of them."""
    if len(healthy) < FEWEST:
        raise InputError(f"healthy runs of one base: {len(healthy)} are too few to label; allowed: {FEWEST} or more")
    n = len(healthy)
    levels, ratios, kappas = {}, np.zeros((n, len(OUTCOMES))), {}
    without = np.zeros((n, len(OUTCOMES)))  # kappa of a signal, estimated without run i
    for j, signal in enumerate(OUTCOMES):
        values = _stacked([comparable(trace, signal) for trace in healthy])
        values[~np.isfinite(values)] = np.nan  # left out: an infinite range would undo the calibration
        levels[signal.name] = _envelope(values)
        ratios[:, j] = [_distance_to_others(values, i) for i in range(n)]
        kappas[signal.name] = max(1.0, float(ratios[:, j].max()))
        for i in range(n):
            rest = np.delete(values, i, 0)
            without[i, j] = max(1.0, *(_distance_to_others(rest, k) for k in range(n - 1)))
    joint = max(1.0, float((ratios / without).max()))
    return Spread(levels, kappas, joint, n)


def visible_steps(run: Trace, twin: Trace, healthy: Spread, onset: int) -> dict[str, int]:
    """First visible step of every outcome signal that becomes visible; steps from the onset on."""
    found: dict[str, int] = {}
    for signal in OUTCOMES:
        length = min(len(run), len(twin))
        if signal.name == "validation_loss":
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
    if signal.name == "validation_loss":
        values = values[trace.evaluated]
    if signal.positive:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.log(np.maximum(values, 1e-30))
    return values


def _stacked(curves: list[np.ndarray]) -> np.ndarray:
    """Curves [S, K] as [N, S, K]; NaN where a run ended before the longest did."""
    longest = max(len(curve) for curve in curves)
    return np.stack([np.pad(c, ((0, longest - len(c)), (0, 0)), constant_values=np.nan) for c in curves])


def _envelope(values: np.ndarray) -> np.ndarray:
    """Largest range over runs within the window, [S, K], of values [N, S, K]; NaN is left out."""
    high = np.where(np.isnan(values), -np.inf, values).max(0)
    low = np.where(np.isnan(values), np.inf, values).min(0)
    width = np.where(high >= low, high - low, 0.0)
    widest: np.ndarray = maximum_filter1d(width, 2 * WINDOW + 1, axis=0, mode="nearest")
    floored: np.ndarray = np.maximum(widest, SMALLEST)
    return floored


def _distance_to_others(values: np.ndarray, i: int) -> float:
    """How far run i is at most from any other, in units of the others' envelope."""
    others = np.delete(values, i, 0)
    gap = np.abs(others - values[i])
    ratio = np.where(np.isnan(gap), 0.0, gap).max(0) / _envelope(others)
    return float(ratio.max(initial=0.0))

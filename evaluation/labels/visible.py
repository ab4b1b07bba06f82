"""When a failure becomes visible (v): measured against the spread of healthy runs.

A faulty run and its twin share seed and data, so they differ by nothing but the fault; healthy runs
of other seeds differ by everything that chance does. The failure is visible in a signal at the first
step at which the faulty run is further from its twin than healthy runs are from each other:

    d(t) = |x_run(t) - x_twin(t)|                        of a component of the signal
    E(t) = range of that component over the healthy runs but the one furthest out, largest within
           `WINDOW` steps of t (of the validation loss, taken every so many steps: at t), and at
           least `FLOOR` of the largest that any component of the signal ever has
    visible where  d(t) > lambda * kappa * E(t)          in any component

Each signal is evaluated twice, step by step and as the mean of the last `SMOOTH` steps, since a shift
that lasts is visible long before any one step of it exceeds the noise of batches; each
view has an E and a kappa of its own. Signals marked `positive` are compared by their logarithm. Of 8
healthy runs one may lag far behind; a range that it set alone would hide harm that is plain beside all
others, so it counts in kappa and lambda only.

Each healthy run in turn is compared with the others: r is how far it is at most from any of them but the
furthest one, in units of their E. kappa, one a view, is the largest r but one: so an outlying run counts once,
where it is compared with the others itself. lambda, one for all views, is the level that r / kappa (kappa
among the others), at its largest over the views, stays under on all but
`FALSE_POSITIVES` of healthy runs: a conformal quantile (Vovk et al. 2005), so the rate holds for all
signals together, whatever their distributions. Without the floors, one signal that is all but the same
in every healthy run for a while, or in all but one, sets lambda for all: so E is at least `SMALLEST`, too.

An extreme of 8 is a poor estimate: on its own eight runs a base has v a few steps off what another
eight would say. So where there are `POOL` bases or more, kappa is the median of theirs, except where a
base is wilder in that view than `WILD` times the median (overflows of fp16, a Post-LN stack), and lambda
comes from the healthy runs of all of them. The rate then holds over the bases together.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.ndimage import maximum_filter1d

from trainwreck.evaluation.constants import COMMON_SIGNALS, LIST_EVERY, LOG_EVERY
from trainwreck.evaluation.dataset.schema import ADDED_SIGNALS, EVALUATIONS, SIGNALS, Axis, Role, Signal
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError

WINDOW = 10  # steps
SMOOTH = LOG_EVERY  # steps: what a logger that averages shows
FLOOR = 0.5
FEWEST = 8  # healthy runs
FALSE_POSITIVES = 1 / (FEWEST + 1)  # the least that so few runs can vouch for
SMALLEST = 0.01  # a nat, a share, or the logarithm of what is compared by it: less is of no interest
POOL = 5  # bases
WILD = 2.0

OUTCOMES = tuple(s for s in SIGNALS if s.role is Role.OUTCOME)


@dataclass(frozen=True)
class View:
    """A signal as it is, or as the mean of its last steps."""

    signal: Signal
    mean_of: int = 1

    @property
    def name(self) -> str:
        """The signal's name, with the number of steps where it is a mean."""
        return self.signal.name if self.mean_of == 1 else f"{self.signal.name}/{self.mean_of}"

    @property
    def window(self) -> int:
        """Entries to each side that E is taken over."""
        return 0 if self.signal.name in EVALUATIONS else WINDOW

    def of(self, trace: Trace) -> np.ndarray:
        """Its values in a run, [S, K]; means of less than all of their steps are NaN."""
        return self.seen(comparable(trace, self.signal))

    def seen(self, values: np.ndarray) -> np.ndarray:
        """The signal's values, [S, K], as they are in this view."""
        if self.mean_of == 1:
            return values
        means = np.full_like(values, np.nan)
        if len(values) >= self.mean_of:
            windows = np.lib.stride_tricks.sliding_window_view(values, self.mean_of, 0)
            with np.errstate(invalid="ignore"):
                means[self.mean_of - 1 :] = windows.mean(-1)
        return means


VIEWS = tuple(
    View(signal, steps) for signal in OUTCOMES for steps in ((1,) if signal.name in EVALUATIONS else (1, SMOOTH))
)


@dataclass(frozen=True)
class Spread:
    """The spread of healthy runs of one base. kappa: view to level; joint: lambda; runs: that lambda rests on.

    gaps: views that are not finite in some healthy runs where they are in others, as the gradient norm is
    under dynamic loss scaling; there, not finite is nothing to see. ratios: r of each run in each view, [N, V];
    without: kappa among the others, [N, V].
    """

    levels: dict[str, np.ndarray]  # view to E, [S, K] (at evaluated steps only for the validation loss)
    kappa: dict[str, float]
    joint: float
    runs: int
    gaps: frozenset[str] = frozenset()
    ratios: np.ndarray = field(default_factory=lambda: np.zeros((0, len(VIEWS))))
    without: np.ndarray = field(default_factory=lambda: np.zeros((0, len(VIEWS))))

    @property
    def false_positive_rate(self) -> float:
        """Probability that a further healthy run is called visible."""
        return 1 - _rank(self.runs) / (self.runs + 1)


def spread(healthy: Sequence[Trace]) -> Spread:
    """Estimate the spread from healthy runs of one base, at least `FEWEST` of them, by themselves."""
    if len(healthy) < FEWEST:
        raise InputError(f"healthy runs of one base: {len(healthy)} are too few to label; allowed: {FEWEST} or more")
    n = len(healthy)
    levels, gaps, kappas = {}, set(), np.ones(len(VIEWS))
    ratios, without = np.zeros((n, len(VIEWS))), np.ones((n, len(VIEWS)))
    for j, view in enumerate(VIEWS):
        curves = [view.of(trace) for trace in healthy]
        values = _stacked(curves)
        here = np.isfinite(values[:, : min(len(curve) for curve in curves)])
        if (here.any(0) & ~here.all(0)).any():
            gaps.add(view.name)
        values[~np.isfinite(values)] = np.nan  # left out: an infinite range would undo the calibration
        levels[view.name] = _envelope(values, view.window)
        far = _distances(values, view.window)
        ratios[:, j] = _reach(far)
        kappas[j] = _scale(far)
        without[:, j] = [_scale(np.delete(np.delete(far, i, 0), i, 1)) for i in range(n)]
    joint = _level((ratios / without).max(1))
    named = {v.name: float(k) for v, k in zip(VIEWS, kappas, strict=True)}
    return Spread(levels, named, joint, n, frozenset(gaps), ratios, without)


def spreads(healthy: Mapping[str, Sequence[Trace]]) -> dict[str, Spread]:
    """The spread of each base that has enough healthy runs; of `POOL` bases or more, levels are shared."""
    alone = {base: spread(runs) for base, runs in healthy.items() if len(runs) >= FEWEST}
    return pooled(alone) if len(alone) >= POOL else alone


def pooled(alone: Mapping[str, Spread]) -> dict[str, Spread]:
    """The same spreads with kappa and lambda of all bases together, but where one is far wilder than the others.

    A signal that few bases have keeps the kappa of each.
    """
    usual = np.median([list(one.kappa.values()) for one in alone.values()], 0)
    few = np.array([view.signal.name in ADDED_SIGNALS for view in VIEWS])  # what most bases have nothing for
    excess, kappas = [], {}
    for base, one in alone.items():
        own = np.array(list(one.kappa.values()))
        wild = few | (own > WILD * usual)
        kappas[base] = np.where(wild, own, usual)
        excess += list((one.ratios / np.where(wild, one.without, usual)).max(1))
    joint = _level(np.array(excess))
    return {
        base: dataclasses.replace(
            one,
            kappa={v.name: float(k) for v, k in zip(VIEWS, kappas[base], strict=True)},
            joint=joint,
            runs=len(excess),
        )
        for base, one in alone.items()
    }


def _level(excess: np.ndarray) -> float:
    """Lambda, from the excess of each healthy run."""
    return max(1.0, float(np.sort(excess)[_rank(len(excess)) - 1]))


def _reach(far: np.ndarray) -> np.ndarray:
    """r of runs that are so far from each other, [N, N] to [N]: the furthest but one."""
    return np.asarray(np.sort(far, 1)[:, -2])


def _scale(far: np.ndarray) -> float:
    """Kappa of runs that are so far from each other: the largest r but one."""
    return max(1.0, float(np.sort(_reach(far))[-2]))


def _rank(n: int) -> int:
    """Which of n healthy runs, from the least excess to the largest, sets the level."""
    return min(n, math.ceil((n + 1) * (1 - FALSE_POSITIVES) - 1e-9))


@dataclass(frozen=True)
class Departure:
    """Where a run is further from its twin than healthy runs are: the steps tested, from the onset on, and verdicts."""

    view: View
    steps: np.ndarray
    above: np.ndarray  # bool, whether any component is further than its level
    finite: np.ndarray  # bool, of the run in all components
    lower: np.ndarray  # bool, whether any component is under the twin's

    def first(self, seen: np.ndarray | None = None) -> int | None:
        """The first step at which it is, of all or of those that are seen (bool, one a step)."""
        above = self.above if seen is None else self.above & seen
        return int(self.steps[above.argmax()]) if above.any() else None


def departures(run: Trace, twin: Trace, healthy: Spread, onset: int) -> list[Departure]:
    """Every view of every outcome signal, compared with the twin's."""
    found = []
    length = min(len(run), len(twin))
    evaluated = np.flatnonzero(run.evaluated[:length] & twin.evaluated[:length])
    for view in VIEWS:
        steps = evaluated if view.signal.name in EVALUATIONS else np.arange(length)
        mine, other = (comparable(trace, view.signal)[: len(steps)] for trace in (run, twin))
        before = steps < onset  # the same by construction; a mean that reaches back there takes it so
        mine, other = view.seen(np.where(before[:, None], other, mine)), view.seen(other)
        if view.name in healthy.gaps:
            other = np.where(np.isfinite(mine), other, np.nan)
        level = healthy.levels[view.name][: len(steps)] * healthy.kappa[view.name] * healthy.joint
        under = ~before
        mine, other = mine[under], other[under]
        with np.errstate(invalid="ignore"):
            lower = np.asarray((mine < other).any(1))
        above, finite = departs(mine, other, level[under]), np.isfinite(mine).all(1)
        found.append(Departure(view, steps[under], above, finite, lower))
    return found


def visible_steps(run: Trace, twin: Trace, healthy: Spread, onset: int) -> dict[str, int]:
    """First visible step of every outcome signal that becomes visible; steps from the onset on."""
    return by_signal(departures(run, twin, healthy, onset))


def by_signal(found: Sequence[Departure]) -> dict[str, int]:
    """The first step of each signal, in either view."""
    steps: dict[str, int] = {}
    for one in found:
        first, name = one.first(), one.view.signal.name
        if first is not None:
            steps[name] = min(first, steps.get(name, first))
    return steps


def by_profile(found: Sequence[Departure], last: int) -> dict[str, int]:
    """The first step at which each observation profile shows it; see `evaluation/replay/profiles.py`.

    last: the run's last step, after which no row comes: what an evaluation had shown in the next one, nothing shows.

    full: any view at any step; common: of its signals. standard: signals as they are, at the steps at which their rows
    come; minimal: the loss alone. filtered: scalars as means, the loss while it is finite (what stands in for the rest
    is made up). An evaluation comes with the next row.
    """
    steps: dict[str, int] = {}

    def keep_first(profile: str, step: int | None) -> None:
        if step is not None and step <= last:
            steps[profile] = min(step, steps.get(profile, step))

    for one in found:
        signal, scalar = one.view.signal, one.view.signal.axis is Axis.SCALAR
        keep_first("full", one.first())
        keep_first("common", one.first() if signal.name in COMMON_SIGNALS else None)
        if signal.name in EVALUATIONS:
            first = one.first()
            keep_first("standard", None if first is None else math.ceil(first / LOG_EVERY) * LOG_EVERY)
            keep_first("filtered", None if first is None else first // LOG_EVERY * LOG_EVERY + LOG_EVERY - 1)
        elif one.view.mean_of == 1:
            every = LOG_EVERY if scalar else LOG_EVERY * LIST_EVERY
            keep_first("standard", one.first(one.steps % every == 0))
            keep_first("minimal", one.first(one.steps % LOG_EVERY == 0) if signal.name == "loss" else None)
        elif scalar:
            seen = one.finite if signal.name == "loss" else True
            keep_first("filtered", one.first(seen & ((one.steps + 1) % LOG_EVERY == 0)))
    return steps


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


def _distances(values: np.ndarray, window: int) -> np.ndarray:
    """How far each run is at most from each other one, in units of the envelope without it, [N, N]."""
    far = np.zeros((len(values), len(values)))
    for i, mine in enumerate(values):
        gap = np.abs(values - mine) / _envelope(np.delete(values, i, 0), window)
        far[i] = np.where(np.isnan(gap), 0.0, gap).max((1, 2), initial=0.0)
    return far

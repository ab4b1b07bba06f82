"""What a run shows under a profile, as its deviation from healthy runs of the same base.

Two failures on two bases differ by their bases first: learning rate, depth, vocabulary. So no value is
used as it is. Of each signal that the profile hands out, the statistics of four windows after the onset
(to an eighth, a quarter, half and all of what is left of the run) are compared with the same statistics of
healthy runs of the same base, at the same steps and of other seeds:

    deviation = asinh((x - mean) / sd)

so that a healthy run of any base deviates by about 1 in everything. A detector that has seen healthy runs
of the base can work this out as it goes. The twin is not used: no detector has one, and beside it the last
bit of a float would tell two causes apart. Where the run has no finite value and healthy runs do, the
deviation is `LARGEST`. Where nothing can be concluded (healthy runs show nothing there either; a signal is the
same in all of them and in this run), a random draw stands in, as of one more healthy run: otherwise the
length of a run, its onset, or what its base keeps constant would tell the causes apart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainwreck.evaluation.constants import LOG_EVERY
from trainwreck.evaluation.dataset.schema import SIGNALS, Axis, Role, Signal
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.replay.profiles import observe
from trainwreck.evaluation.replay.replay import rows

WINDOWS = ((0.0, 0.125), (0.125, 0.25), (0.25, 0.5), (0.5, 1.0))  # shares of what is left after the onset
PAST = 0.5  # the window before the onset reaches back over this share of it
LARGEST = 20.0
SMALLEST = 1e-6  # a spread under this, relative to the mean where that is over 1, is rounding
FEWEST_OTHERS = 3  # healthy runs that must show a statistic, or nothing can be concluded
LEAST = 1e-30  # the logarithm of a positive signal starts here


@dataclass(frozen=True)
class Shown:
    """The rows that a profile hands out of a run. steps: [R]; curves: [R, C], NaN where nothing was logged."""

    steps: np.ndarray
    curves: np.ndarray


def shown(trace: Trace, profiles: Sequence[str], k: int = LOG_EVERY) -> dict[str, Shown]:
    """Each profile's rows of a run as curves: scalars as they are, lists reduced to a few numbers each."""
    everything = list(rows(trace))
    return {profile: _shown(list(observe(everything, profile, k=k))) for profile in profiles}


def statistics(seen: Shown, onset: int, planned: int) -> np.ndarray:
    """Mean of every curve and range of every scalar in each window after the onset, [D]; NaN without a finite value.

    planned: steps that the run was meant to take, which a healthy run of its base takes.
    """
    left = planned - onset
    return np.concatenate([_window(seen, onset + a * left, onset + b * left) for a, b in WINDOWS])


def past(seen: Shown, onset: int) -> np.ndarray:
    """The same for the window before the onset, [D / 4]: what a detector compares the rest of the run with."""
    return _window(seen, onset - PAST * onset, onset)


@dataclass(frozen=True)
class Deviation:
    """How far a run is from healthy ones. values: [B, D], one set of healthy runs a fold, within +-LARGEST.

    seen: [D], healthy runs show the statistic, so that the run could be compared. telling: [D], it was not only
    what it is in every healthy run. Where not both, a draw stands in.
    """

    values: np.ndarray
    seen: np.ndarray
    telling: np.ndarray


def deviation(mine: np.ndarray, others: np.ndarray, kept: np.ndarray, draw: np.random.Generator) -> Deviation:
    """Deviation of statistics [D] from those of healthy runs [N, D].

    kept: bool [B, N], the healthy runs to compare with in each of B folds.
    """
    known = np.isfinite(others)
    weight = kept.astype(np.float64)
    values = np.where(known, others, 0.0)
    centre = values.sum(0) / np.maximum(1, known.sum(0))  # taken off first: of large values the squares cancel
    values = np.where(known, others - centre, 0.0)
    count = weight @ known
    several = np.maximum(1, count)
    mean = weight @ values / several
    square = np.maximum(0.0, weight @ values**2 - several * mean**2) / np.maximum(1, count - 1)
    # A further healthy run is as far from the mean of n as sqrt(1 + 1 / n) of the spread.
    spread = np.sqrt(square * (1 + 1 / several))
    rounding = SMALLEST * np.maximum(1.0, np.abs(centre + mean))
    finite = np.isfinite(mine)
    far = np.where(finite, mine - centre, 0.0) - mean
    squashed = np.clip(np.arcsinh(far / np.maximum(spread, rounding)), -LARGEST, LARGEST)
    # Healthy runs of a scaled float16 skip a step now and then: there a value that is not finite says nothing.
    unseen = (count < FEWEST_OTHERS) | (~finite & (count < weight.sum(1, keepdims=True)))
    as_ever = finite & (spread <= rounding) & (np.abs(far) <= rounding)
    drawn = np.arcsinh(draw.standard_normal(len(mine)))
    filled = np.where(unseen | as_ever, drawn, np.where(finite, squashed, LARGEST))
    return Deviation(filled.astype(np.float32), ~unseen.any(0), ~as_ever.all(0))


def curve_names() -> list[str]:
    """Names of the curves, in order: a signal, or a signal and how its list is reduced."""
    return [f"{signal.name} {how}".rstrip() for signal in SIGNALS for how in _reductions(signal)]


def _reductions(signal: Signal) -> tuple[str, ...]:
    """What stands for a list: as many numbers whatever the depth and the number of heads."""
    if signal.axis is Axis.SCALAR:
        return ("",)
    if signal.role is Role.HASH:
        return ("differing",)
    if signal.axis is Axis.RANKS:
        return ("mean", "spread")
    if signal.axis is Axis.HEADS:
        return ("mean", "largest", "least")
    return ("mean", "largest", "least", "first", "last")


SCALARS = np.array([signal.axis is Axis.SCALAR for signal in SIGNALS for _ in _reductions(signal)])  # [C]


def _shown(seen: list[dict[str, Any]]) -> Shown:
    parts = [_curves(signal, [row[signal.name] for row in seen]) for signal in SIGNALS]
    return Shown(np.array([row["step"] for row in seen], dtype=np.int64), np.concatenate(parts, axis=1))


def _curves(signal: Signal, values: list[Any]) -> np.ndarray:
    """A signal of R rows, one curve a reduction. [R, reductions]"""
    present = np.array([value is not None for value in values], dtype=bool)
    found = np.full((len(values), len(_reductions(signal))), np.nan)
    if present.any():
        array = np.array([value for value in values if value is not None], dtype=np.float64)
        found[present] = np.stack(list(_reduced(signal, array.reshape(len(array), -1))), axis=1)
    if signal.positive:
        with np.errstate(invalid="ignore"):
            found = np.log(np.maximum(found, LEAST))  # NaN stays
    return found


def _reduced(signal: Signal, values: np.ndarray) -> Iterator[np.ndarray]:
    """values: [R, K]. A NaN in a list (no token is that old) is left out of its mean and extremes."""
    known = ~np.isnan(values)
    largest = np.where(known, values, -np.inf).max(1)
    least = np.where(known, values, np.inf).min(1)
    nothing = ~known.any(1)
    for how in _reductions(signal):
        with np.errstate(invalid="ignore"):  # infinity less infinity
            if how in ("", "first"):
                yield values[:, 0]
            elif how == "last":
                yield values[:, -1]
            elif how == "differing":
                yield (values != values[:, :1]).sum(1).astype(np.float64)
            elif how == "mean":
                yield np.where(nothing, np.nan, np.where(known, values, 0.0).sum(1) / np.maximum(1, known.sum(1)))
            else:
                reduced = {"largest": largest, "least": least, "spread": largest - least}[how]
                yield np.where(nothing, np.nan, reduced)


def _window(seen: Shown, start: float, stop: float) -> np.ndarray:
    inside = seen.curves[(seen.steps >= start) & (seen.steps < stop)]
    known = np.isfinite(inside)
    count = known.sum(0)
    mean = np.where(known, inside, 0.0).sum(0) / np.maximum(1, count)
    high = np.where(known, inside, -np.inf).max(0, initial=-np.inf)[SCALARS]
    low = np.where(known, inside, np.inf).min(0, initial=np.inf)[SCALARS]
    spread = np.full(len(high), np.nan)
    np.subtract(high, low, out=spread, where=count[SCALARS] > 1)
    return np.concatenate([np.where(count > 0, mean, np.nan), spread])

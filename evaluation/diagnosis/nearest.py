"""The labelled runs of the shipped sample that a log is most like around its change, and their curves laid over it.

Time: from its first step to the change, and from the change to its last step, each is stretched onto the same part of
the log. A labelled run's change is the step at which its failure is visible, or its onset. Level and scale: the
labelled curve is mapped by a + b x with b > 0, by least squares on the medians of 16 pieces before the change and 32
after it. The distance is what is left then, as a share of the standard deviation of the log's pieces; a run that ends
in NaN is no match for one that does not.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.dataset.sample import SAMPLE
from trainwreck.evaluation.dataset.schema import RunKind
from trainwreck.evaluation.diagnosis.observed import Curve, Observed

BEFORE, AFTER = 16, 32  # pieces
NEAREST = 3
POINTS = 240  # of a curve that is laid over the log


@dataclass(frozen=True)
class Near:
    """A labelled run. runs: "faulty", "twin" and "cured" to their ids. distance: see above; 0 is the same shape.

    curves: the loss of each on the axes of the log, steps and values, both [R].
    """

    cause: str
    severity: str
    onset: int
    distance: float
    runs: dict[str, str]
    curves: dict[str, Curve]

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe, without the curves."""
        return {"cause": self.cause, "severity": self.severity, "onset_step": self.onset,
                "distance": round(self.distance, 4), "runs": self.runs}  # fmt: skip


def nearest(run: Observed, since: int) -> list[Near]:
    """The nearest runs, one a cause, the nearest first; none where the loss has too few rows, or none on one side."""
    loss = run.curve("loss")
    mine = _pieces(loss, since)
    if mine is None:
        return []
    found = [near for row in _failing() if (near := _near(row, loss, mine, since)) is not None]
    best: dict[str, Near] = {}
    for near in sorted(found, key=lambda one: one.distance):
        best.setdefault(near.cause, near)
    return list(best.values())[:NEAREST]


@cache
def _sample() -> DataSet:
    return load(SAMPLE)


@cache
def _failing() -> tuple[pd.Series, ...]:
    runs = _sample().runs
    return tuple(row for _, row in runs[runs["kind"] == RunKind.FAILING.value].iterrows())


@cache
def _loss(run_id: str) -> Curve:
    trace = _sample().trace(run_id)
    return Curve(trace.steps, trace["loss"].astype(np.float64))


def _near(row: pd.Series, loss: Curve, mine: tuple[np.ndarray, bool], since: int) -> Near | None:
    labelled = _loss(row["run_id"])
    onset = int(row["onset_step"])
    change = onset if pd.isna(row["visible_step"]) else int(row["visible_step"])
    theirs = _pieces(labelled, change)
    if theirs is None or theirs[1] != mine[1]:
        return None
    both = np.isfinite(mine[0]) & np.isfinite(theirs[0])
    if both[:BEFORE].sum() < BEFORE // 4 and both[BEFORE:].sum() < AFTER // 4:
        return None
    a, b = _fit(theirs[0][both], mine[0][both])
    spread = float(mine[0][both].std()) or 1.0
    distance = float(np.sqrt(np.mean((a + b * theirs[0][both] - mine[0][both]) ** 2))) / spread
    missing = float((np.isfinite(mine[0]) != np.isfinite(theirs[0])).mean())  # pieces that one of them does not have
    runs = {"faulty": row["run_id"], "twin": row["twin_id"]} | _cured(row)
    curves = {role: _over(_loss(run_id), change, loss, since, a, b) for role, run_id in runs.items()}
    return Near(row["cause"], row["severity"], onset, distance + missing, runs, curves)


def _cured(row: pd.Series) -> dict[str, str]:
    runs = _sample().runs
    its = runs[(runs["kind"] == RunKind.CURED.value) & (runs["twin_id"] == row["twin_id"])]
    its = its[(its["scenario"] == row["scenario"]) & (its["severity"] == row["severity"])]
    return {"cured": str(its.iloc[0]["run_id"])} if len(its) else {}


def _pieces(loss: Curve, change: int) -> tuple[np.ndarray, bool] | None:
    """Medians of the pieces before and after the change, [BEFORE + AFTER], NaN where there is none; and whether the
    loss is not finite after it. None of fewer than 8 points."""
    finite = loss.finite
    if len(finite) < BEFORE // 2:
        return None
    broken = not np.isfinite(loss.values).all()
    parts = []
    for steps, low, high, count in (
        (finite.steps < change, loss.steps[0], change, BEFORE),
        (finite.steps >= change, change, loss.steps[-1] + 1, AFTER),
    ):
        at = (finite.steps[steps] - low) / max(1, high - low) * count
        values, known = finite.values[steps], np.unique(at.astype(int))
        medians = [np.median(values[at.astype(int) == piece]) for piece in known]
        # Between two pieces that are known the log is a line; outside of them there is none.
        parts.append(np.interp(np.arange(count), known, medians, np.nan, np.nan) if medians else np.full(count, np.nan))
    return np.concatenate(parts), broken


def _fit(theirs: np.ndarray, mine: np.ndarray) -> tuple[float, float]:
    """a and b of a + b theirs, nearest to mine, b not under 0."""
    centred = theirs - theirs.mean()
    b = max(0.0, float(centred @ (mine - mine.mean())) / max(float(centred @ centred), 1e-12))
    return float(mine.mean() - b * theirs.mean()), b


def _over(curve: Curve, change: int, loss: Curve, since: int, a: float, b: float) -> Curve:
    """A labelled curve on the axes of the log, thinned."""
    chosen = np.unique(np.linspace(0, len(curve) - 1, POINTS).astype(int))
    steps = np.interp(
        curve.steps[chosen],
        _ascending(curve.steps[0], change, curve.steps[-1]),
        _ascending(loss.steps[0], since, loss.steps[-1]),
    )
    return Curve(np.round(steps, 1), a + b * curve.values[chosen])


def _ascending(first: int, change: int, last: int) -> list[float]:
    return [float(first), float(max(change, first)), float(max(last, change))]

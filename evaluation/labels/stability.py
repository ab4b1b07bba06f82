"""Certainty of labels: the same measurement from other healthy runs.

Of every base with twice the healthy runs that a label needs, one half sets the levels (see `visible.py`),
and the other half is compared with them as if its runs were failing: each with another one as its twin. The
share that is called visible is the measured false-positive rate, to compare with the stated one. And the visible
step of every failing run is measured from either half.

Points of no return depend on no healthy run but the twin, so they don't change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import UNDER_FAULT
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.intervals import binomial_interval
from trainwreck.evaluation.labels.labelling import healthy_of
from trainwreck.evaluation.labels.visible import FEWEST, Spread, spreads, visible_steps
from trainwreck.evaluation.short_forms import AsText

NEAR = 2  # steps


@dataclass(frozen=True, repr=False)
class Stability(AsText):
    """What was found. Rates are shares; interval: exact (Clopper and Pearson 1934), at `CONFIDENCE`."""

    bases: int
    pairs: int  # healthy runs compared with another one
    stated_rate: float
    measured_rate: float
    interval: tuple[float, float]
    runs: int  # under a fault
    same_step: float  # share of them with the same visible step, or none, from both halves
    near: float  # share within NEAR steps
    off: dict[str, int]  # scenario to its runs further apart

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return asdict(self)

    def __repr__(self) -> str:
        return self.text()

    def text(self) -> str:
        """Some lines for a person."""
        low, high = self.interval
        lines = [
            f"healthy runs called visible: {self.measured_rate:.1%} ({low:.1%} to {high:.1%}) of {self.pairs} pairs on "
            f"{self.bases} bases; stated: {self.stated_rate:.1%}",
            f"visible step from other healthy runs: the same for {self.same_step:.1%}, within {NEAR} steps for "
            f"{self.near:.1%} of {self.runs} runs",
        ]
        if self.off:
            lines.append("further apart: " + ", ".join(f"{name} ({count})" for name, count in self.off.items()))
        return "\n".join(lines)


def stability(dataset: DataSet) -> Stability:
    """Measure both. InputError where no base has enough healthy runs."""
    rows = dataset.runs.to_dict("records")
    halves = {base: _halves(ids) for base, ids in healthy_of(rows).items() if len(ids) >= 2 * FEWEST}
    if not halves:
        raise InputError(f"healthy runs: no base has enough to check labels; allowed: {2 * FEWEST} or more of one base")
    first, second = ({base: [dataset.trace(i) for i in half[k]] for base, half in halves.items()} for k in (0, 1))
    levels, others = spreads(first), spreads(second)
    verdicts = [*_paired(levels, second), *_paired(others, first)]
    steps = [
        (str(row["scenario"]), _visible(dataset, row, levels), _visible(dataset, row, others))
        for row in rows
        if row["kind"] in UNDER_FAULT and row["base"] in halves and row["twin_id"]
    ]
    apart = [_apart(a, b) for _, a, b in steps]
    far = [name for (name, *_), d in zip(steps, apart, strict=True) if d > NEAR]
    off = sorted(((name, far.count(name)) for name in set(far)), key=lambda pair: (-pair[1], pair[0]))
    return Stability(
        bases=len(halves),
        pairs=len(verdicts),
        stated_rate=next(iter(levels.values())).false_positive_rate,
        measured_rate=float(np.mean(verdicts)),
        interval=binomial_interval(sum(verdicts), len(verdicts)),
        runs=len(steps),
        same_step=float(np.mean([d == 0 for d in apart])) if steps else float("nan"),
        near=float(np.mean([d <= NEAR for d in apart])) if steps else float("nan"),
        off=dict(off),
    )


def _halves(ids: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    return ids[:FEWEST], ids[FEWEST : 2 * FEWEST]


def _paired(levels: dict[str, Spread], healthy: dict[str, list[Trace]]) -> list[bool]:
    """Of each healthy run, whether it is visible beside the next one of its base."""
    return [
        bool(visible_steps(run, runs[(i + 1) % len(runs)], levels[base], 0))
        for base, runs in healthy.items()
        for i, run in enumerate(runs)
    ]


def _visible(dataset: DataSet, row: Mapping[Any, Any], levels: dict[str, Spread]) -> int | None:
    run, twin = dataset.trace(row["run_id"]), dataset.trace(row["twin_id"])
    return min(visible_steps(run, twin, levels[row["base"]], int(row["onset_step"])).values(), default=None)


def _apart(a: int | None, b: int | None) -> float:
    if a is None or b is None:
        return 0.0 if a is b else float("inf")
    return abs(a - b)

"""Train a run of a data set again and compare every number with what is on record."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainwreck.evaluation.dataset import load
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.schema import SIGNALS
from trainwreck.evaluation.trace import Trace
from trainwreck.evaluation.unlabelled import refuse_imported
from trainwreck.scenarios.backend import recorded
from trainwreck.scenarios.loop import train
from trainwreck.scenarios.plan import RunSpec
from trainwreck.scenarios.process import environment, prepare


@dataclass(frozen=True)
class Reproduction:
    """identical, or the first step and signal that differ and by how much (in the signal's unit).

    difference is None where it is no number: one of the two is NaN or infinite.
    """

    run_id: str
    identical: bool
    rows: int
    step: int | None = None
    signal: str = ""
    difference: float | None = None
    changed: tuple[str, ...] = ()  # parts of the environment that are not as they were

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return asdict(self)

    def text(self) -> str:
        """One or two lines for a person."""
        if self.identical:
            return f"{self.run_id}: identical, {self.rows} rows to the bit"
        line = f"{self.run_id}: differs from step {self.step} on, first in {self.signal}"
        line += f" by {self.difference:.3g}" if self.difference is not None else ", finite in one of the two"
        return line + (f"\nnot as it was: {', '.join(self.changed)}" if self.changed else "")


def reproduce(folder: Path, run_id: str) -> Reproduction:
    """Train one run of a data set again, alone, on the backend on record, and compare.

    InputError for an unknown run, or a backend that is not here.
    """
    dataset = load(folder)
    refuse_imported(dataset, "trained again")
    row = dataset.run(run_id)
    spec = RunSpec.from_json(json.loads(row["spec"]))
    if spec.run_id != run_id:
        raise InputError(f"run {run_id}: its scenario has changed since; this version would train {spec.run_id}")
    prepare()
    used = recorded(dataset.manifest)
    again = train([spec.job()], device=used.device, impl=used.impl)[0].trace
    here, there = environment(), dataset.manifest["environment"]
    changed = tuple(sorted(key for key in here if here[key] != there.get(key)))
    return compare(dataset.trace(run_id), again, changed)


def compare(old: Trace, new: Trace, changed: tuple[str, ...] = ()) -> Reproduction:
    """The first difference between two traces, if there is one."""
    length = min(len(old), len(new))
    first: tuple[int, str] | None = None
    for signal in SIGNALS:
        a, b = (t[signal.name][:length].reshape(length, -1) for t in (old, new))
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        bad = np.flatnonzero(~same.all(1))
        if len(bad) and (first is None or bad[0] < first[0]):
            first = int(bad[0]), signal.name
    if first is None and len(old) != len(new):
        return Reproduction(old.run_id, False, length, length, "length", float(len(new) - len(old)), changed)
    if first is None:
        return Reproduction(old.run_id, True, length)
    step, name = first
    a, b = (np.atleast_1d(t[name][step]).astype(np.float64) for t in (old, new))
    apart = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    gap = np.abs(b - a)[apart]
    return Reproduction(
        old.run_id, False, length, step, name, float(gap.max()) if np.isfinite(gap).all() else None, changed
    )

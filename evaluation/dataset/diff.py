"""Telemetry against telemetry, compared bitwise: where it differs, from which step on and by how many nats."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import SIGNALS
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError

LABELS = ("kind", "cause", "onset_step", "visible_step", "visible_steps", "no_return_step")
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Comparison:
    """identical, or the first step and signal that differ and by how much (in the signal's unit).

    difference is None where it is no number: one of the two is NaN or infinite. loss_difference: the largest
    of the training loss at any step that both have, in nats; final_difference: of the last validation loss, in
    nats, the second's less the first's; each is None where it is no number. labels: columns of the runs table
    that differ, where data sets are compared.
    """

    run_id: str
    identical: bool
    rows: int
    step: int | None = None
    signal: str = ""
    difference: float | None = None
    changed: tuple[str, ...] = ()  # parts of the environment that are not as they were
    loss_difference: float | None = None
    final_difference: float | None = None
    labels: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return asdict(self)

    def text(self) -> str:
        """One to three lines for a person."""
        if self.identical:
            return f"{self.run_id}: {self.rows} rows, bitwise identical" + self._labels()
        by = f" by {self.difference:.3g}" if self.difference is not None else ", finite in one of the two"
        lines = [f"{self.run_id}: differs from step {self.step} on, first in {self.signal}{by}" + self._labels()]
        lines.append(
            f"training loss apart by at most {_nats(self.loss_difference)}, "
            f"last validation loss by {_nats(self.final_difference, '+')}"
        )
        return "\n".join(lines + ([f"not as it was: {', '.join(self.changed)}"] if self.changed else []))

    def _labels(self) -> str:
        return f"; labels that differ: {', '.join(self.labels)}" if self.labels else ""


def compare(old: Trace, new: Trace, changed: tuple[str, ...] = ()) -> Comparison:
    """The first difference between two traces, if there is one."""
    length = min(len(old), len(new))
    first: tuple[int, str] | None = None
    for signal in SIGNALS:
        a, b = (_values(trace, signal.name, length) for trace in (old, new))
        bad = np.flatnonzero(~_same(a, b).all(1)) if a.shape == b.shape else np.arange(min(length, 1))
        if len(bad) and (first is None or bad[0] < first[0]):
            first = int(bad[0]), signal.name
    if first is None and len(old) == len(new):
        return Comparison(old.run_id, True, length)
    losses = _largest(old["loss"][:length], new["loss"][:length]), _number(new.final_loss() - old.final_loss())
    if first is None:
        return Comparison(old.run_id, False, length, length, "length", float(len(new) - len(old)), changed, *losses)
    step, name = first
    a, b = (_values(trace, name, length)[step].astype(np.float64) for trace in (old, new))
    gap = np.abs(b - a)[~_same(a, b)] if a.shape == b.shape else np.array([np.nan])
    difference = float(gap.max()) if np.isfinite(gap).all() else None
    return Comparison(old.run_id, False, length, step, name, difference, changed, *losses)


def changed_environment(there: dict[str, Any], here: dict[str, Any]) -> tuple[str, ...]:
    """Parts of an environment that are not the same in another."""
    return tuple(sorted(key for key in {*there, *here} if here.get(key) != there.get(key)))


def common_runs(one: DataSet, other: DataSet) -> list[str]:
    """Runs of both, in the first one's order. InputError where there is none."""
    here = set(other.runs["run_id"])
    common = [run_id for run_id in one.runs["run_id"] if run_id in here]
    if not common:
        raise InputError(f"data sets: {one.path} and {other.path} have no run in common; nothing to compare")
    return common


def compare_data_sets(one: DataSet, other: DataSet) -> Iterator[Comparison]:
    """Every run that both have, telemetry and labels, in the first one's order."""
    changed = changed_environment(one.manifest.get("environment", {}), other.manifest.get("environment", {}))
    for run_id in common_runs(one, other):
        found = compare(one.trace(run_id), other.trace(run_id), changed)
        mine, yours = one.run(run_id), other.run(run_id)
        labels = tuple(name for name in LABELS if _label(mine[name]) != _label(yours[name]))
        yield replace(found, labels=labels)


def _values(trace: Trace, name: str, length: int) -> np.ndarray:
    """A signal's first rows, [length, K]; without columns where the trace does not have it."""
    if name not in trace.signals:
        return np.zeros((length, 0), np.float32)
    return np.asarray(trace[name][:length]).reshape(length, -1)


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))


def _largest(a: np.ndarray, b: np.ndarray) -> float | None:
    a, b = a.astype(np.float64), b.astype(np.float64)
    gap = np.abs(a - b)[~_same(a, b)]
    return _number(gap.max(initial=0.0))


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _nats(value: float | None, sign: str = "") -> str:
    return "no number of nats" if value is None else f"{value:{sign}.3g} nats"


def _label(value: Any) -> Any:
    """A cell as it can be compared: dictionaries by their content, missing values as None."""
    if isinstance(value, str):
        return json.loads(value) if value.startswith("{") else value
    return None if value is None or value != value else value

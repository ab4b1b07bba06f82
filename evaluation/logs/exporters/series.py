"""What a run recorded, one series of numbers a name: `loss`, and `layer_grad_norm/3` for an entry of a list."""

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from trainwreck.evaluation.dataset.schema import ADDED_SIGNALS, RUN_FIELDS, SIGNALS, Axis
from trainwreck.evaluation.dataset.trace import Trace

# Labels of a run, for a tool that has a field for them; the rest is in the data set.
FACTS = (
    "scenario", "cause", "causes", "family", "kind", "split", "severity", "seed", "size", "onset_step", "cure_step",
    "visible_step", "no_return_step", "outcome", "final_gap",
)  # fmt: skip


class Series(NamedTuple):
    """values: float32, [n], of the steps at which they were logged; NaN is one that was."""

    name: str
    steps: np.ndarray
    values: np.ndarray


def series(trace: Trace) -> Iterator[Series]:
    """Every signal of a run, each entry of a list on its own; without those that were never logged."""
    for signal in SIGNALS:
        if signal.name not in trace.signals:
            continue
        values = trace.signals[signal.name]
        if signal.name == "validation_loss":
            present = trace.evaluated
        elif signal.name == "fresh_loss" or (signal.name in ADDED_SIGNALS and signal.name not in trace.logged):
            present = ~np.isnan(values) if values.ndim == 1 else ~np.isnan(values).all(1)
        else:
            present = trace.logged.get(signal.name, np.ones(len(trace), bool))
        if not present.any():
            continue
        if signal.axis is Axis.SCALAR:
            yield Series(signal.name, trace.steps[present], values[present])
        else:
            for entry in range(values.shape[1]):
                yield Series(f"{signal.name}/{entry}", trace.steps[present], values[present, entry])


def by_step(trace: Trace) -> Iterator[tuple[int, dict[str, float]]]:
    """The same by step: name to value, of what was logged there."""
    found: dict[int, dict[str, float]] = {step: {} for step in trace.steps.tolist()}
    for name, steps, values in series(trace):
        for step, value in zip(steps.tolist(), values.tolist(), strict=True):
            found[step][name] = value
    yield from found.items()


def facts(row: pd.Series) -> dict[str, Any]:
    """What is true of a run, without what is empty, JSON-safe."""
    assert {*FACTS} <= {name for name, _, _ in RUN_FIELDS}
    found: dict[str, Any] = {}
    for name in FACTS:
        value = row[name]
        if value is None or value in ("", "{}") or (isinstance(value, float) and math.isnan(value)) or value is pd.NA:
            continue
        found[name] = value if isinstance(value, str) else json.loads(str(value))
    return {name: int(value) if _is_whole(name, value) else value for name, value in found.items()}


def _is_whole(name: str, value: Any) -> bool:
    return (name.endswith("_step") or name == "seed") and isinstance(value, float)

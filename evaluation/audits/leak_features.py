"""The channels through which a data set could give its labels away, as features of a run that should predict nothing.

What a detector on the blind track gets:

    row_zero     every number of the first row
    first_rows   mean and range of every number over the first `FIRST` rows
    missing      of the same rows: shares of None, NaN and infinity, and lengths of lists
    formats      of the same rows: type, trailing zero bits, decimals, whole and repeated numbers
    length       rows handed out
    order        place among the runs in the order they are replayed in

What only the informed track has: context, the declared configuration. What the harness withholds, and what a
harness of one's own must withhold: table_order, run_id, file.

A run under its fault shows it by right, so a run counts for a channel of rows only if its onset is after
them. A run that ended early after a loss that is not finite counts at its planned length: the end
follows the failure, and no detector knows it before. A run that ended early without is counted as it is.
"""

import json
from collections.abc import Callable, Sequence
from itertools import islice
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.first_rows import FIRST, Facts, cells, frame, row_numbers, summary
from trainwreck.evaluation.replay.profiles import observe
from trainwreck.evaluation.replay.replay import replay_order, rows

ENDS = 16  # characters of a name that are used, from its start and from its end
MODULI = (2, 3, 4, 5, 6, 7, 8)
DECIMALS = 9
BITS = 52  # of the fraction of a float64

BLIND, INFORMED, WITHHELD = "blind", "informed", "withheld"
CHANNELS = {
    "row_zero": BLIND, "first_rows": BLIND, "missing": BLIND, "formats": BLIND, "length": BLIND, "order": BLIND,
    "context": INFORMED, "table_order": WITHHELD, "run_id": WITHHELD, "file": WITHHELD,
}  # fmt: skip
ROWS_READ = {"row_zero": 1, "first_rows": FIRST, "missing": FIRST, "formats": FIRST}


def features(
    dataset: DataSet, runs: pd.DataFrame, channels: Sequence[str] = tuple(CHANNELS), tick: Tick | None = None
) -> dict[str, pd.DataFrame]:
    """Each channel's features of runs of a data set: one row a run, float64, NaN where a run lacks one."""
    makers = _makers(dataset)
    found: dict[str, dict[str, Facts]] = {name: {} for name in channels}
    for done, (run_id, run) in enumerate(runs.iterrows(), start=1):
        trace = dataset.trace(str(run_id))
        first = list(islice(observe(rows(trace), "full"), FIRST))
        for name in channels:
            found[name][str(run_id)] = makers[name](run, trace, first)
        if tick is not None:
            tick(done, len(runs), str(run_id))
    return {name: frame(by_run, runs.index) for name, by_run in found.items()}


def _makers(dataset: DataSet) -> dict[str, Callable[[pd.Series, Trace, list[dict[str, Any]]], Facts]]:
    """Channel to what it makes of a row of the runs table, the run's telemetry, and its first rows."""
    shown = _places(replay_order(dataset.runs.index))
    listed = _places(list(dataset.runs.index))
    group = dataset.runs.groupby("file").cumcount()
    size = dataset.runs.groupby("file")["file"].transform("size")

    def file(run: pd.Series) -> Facts:
        at, of = float(group[run["run_id"]]), float(size[run["run_id"]])
        return _characters(run["file"]) | {"place in the file": at, "runs of the file": of}

    return {
        "row_zero": lambda run, trace, first: row_numbers(first[0]) if first else {},
        "first_rows": lambda run, trace, first: summary(first),
        "missing": lambda run, trace, first: _missing(first),
        "formats": lambda run, trace, first: _formats(first),
        "length": lambda run, trace, first: {"rows": float(_length(trace, int(run["planned_steps"])))},
        "order": lambda run, trace, first: shown[run["run_id"]],
        "context": lambda run, trace, first: _leaves(json.loads(run["context"] or "{}")),
        "table_order": lambda run, trace, first: listed[run["run_id"]],
        "run_id": lambda run, trace, first: _characters(run["run_id"]),
        "file": lambda run, trace, first: file(run),
    }


def _missing(first: list[dict[str, Any]]) -> Facts:
    facts: Facts = {"rows": float(len(first)), "first step": float(first[0]["step"]) if first else -1.0}
    for name in first[0] if first else ():
        if name == "step":
            continue
        columns = [cells(row)[name] for row in first]
        values = np.array([v for column in columns for v in column if isinstance(v, Real)], dtype=np.float64)
        facts[f"{name} empty"] = float(np.mean([not column for column in columns]))
        facts[f"{name} numbers"] = float(max(len(column) for column in columns))
        facts[f"{name} nan"] = float(np.isnan(values).mean()) if len(values) else 0.0
        facts[f"{name} infinite"] = float(np.isinf(values).mean()) if len(values) else 0.0
    return facts


TYPES = {"bool": 0.0, "int": 1.0, "float": 2.0, "str": 3.0}


def _formats(first: list[dict[str, Any]]) -> Facts:
    facts: Facts = {}
    for name in first[0] if first else ():
        values = [v for row in first for v in ([row[name]] if name == "step" else cells(row)[name])]
        facts[f"{name} type"] = max((TYPES.get(type(v).__name__, 4.0) for v in values), default=-1.0)
        numbers = np.array([v for v in values if isinstance(v, Real)], dtype=np.float64)
        numbers = numbers[np.isfinite(numbers)]
        if not len(numbers):
            continue
        facts[f"{name} zero bits"] = float(_trailing_zeros(numbers).min())
        facts[f"{name} decimals"] = float(_decimals(numbers))
        facts[f"{name} whole"] = float((numbers == np.round(numbers)).mean())
        facts[f"{name} repeated"] = float(1 - len(np.unique(numbers)) / len(numbers))
    return facts


def _trailing_zeros(numbers: np.ndarray) -> np.ndarray:
    """Trailing zero bits of each number's fraction: 29 and more for a float32, 45 for a bfloat16. [N]"""
    bits = numbers.astype(np.float64).view(np.uint64) & np.uint64(2**BITS - 1)
    lowest = bits & (~bits + np.uint64(1))
    return np.where(bits == 0, BITS, np.log2(np.maximum(lowest, np.uint64(1)).astype(np.float64)))


def _decimals(numbers: np.ndarray) -> int:
    """Fewest decimals that give the numbers back, as far as a float32 holds them."""
    single = numbers.astype(np.float32)
    for decimals in range(DECIMALS):
        if np.array_equal(np.round(numbers, decimals).astype(np.float32), single):
            return decimals
    return DECIMALS


def _length(trace: Trace, planned: int) -> int:
    return max(planned, len(trace)) if not trace.finite() else len(trace)


def _places(order: list[Any]) -> dict[str, Facts]:
    """Place of each run, as a number and as remainders."""
    return {
        run_id: {"place": float(i)} | {f"place mod {m}": float(i % m) for m in MODULI} for i, run_id in enumerate(order)
    }


def _characters(name: str) -> Facts:
    start = {f"character {i}": float(ord(c)) for i, c in enumerate(name[:ENDS])}
    end = {f"character -{i}": float(ord(c)) for i, c in enumerate(name[::-1][:ENDS], start=1)}
    return {"characters": float(len(name)), "digits": float(sum(c.isdigit() for c in name)), **start, **end}


def _leaves(content: Any, path: str = "") -> Facts:
    """Numbers of a JSON value by their path; a text is one feature a value."""
    if isinstance(content, dict):
        return {name: v for key, value in content.items() for name, v in _leaves(value, f"{path}.{key}").items()}
    if isinstance(content, list):
        return _leaves(dict(enumerate(content)), path) | {f"{path} length": float(len(content))}
    if isinstance(content, Real):
        return {path: float(content)}
    return {f"{path} is {content}": 1.0}

"""The first rows of a run as features, and the boosted classifier that tries to tell from them how it ends."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.detectors.base import Row

FIRST = 10  # rows

Facts = dict[str, float]


def cells(row: Row) -> dict[str, list[Any]]:
    """Signal to its values in a row, one or several; empty where nothing was logged."""
    return {
        name: [] if value is None else value if isinstance(value, list) else [value]
        for name, value in row.items()
        if name != "step"
    }


def row_numbers(row: Row) -> Facts:
    """Every number of a row."""
    return {f"{name}[{i}]": float(v) for name, values in cells(row).items() for i, v in enumerate(values)}


def summary(first: Iterable[Row]) -> Facts:
    """Mean and range of every number over rows, of the finite values."""
    columns: dict[str, list[float]] = {}
    for row in first:
        for name, value in row_numbers(row).items():
            columns.setdefault(name, []).append(value)
    facts: Facts = {}
    for name, values in columns.items():
        known = [value for value in values if isfinite(value)]
        if known:
            facts |= {f"{name} mean": sum(known) / len(known), f"{name} range": max(known) - min(known)}
    return facts


def frame(by_run: Mapping[str, Facts], index: Iterable[str]) -> pd.DataFrame:
    """One row a run, float64, NaN where a run lacks a feature."""
    table = pd.DataFrame.from_dict({run_id: by_run[run_id] for run_id in index}, orient="index", dtype=np.float64)
    return table.clip(-np.finfo(np.float64).max, np.finfo(np.float64).max)  # infinity is missing's to tell


def boosted(values: np.ndarray, label: np.ndarray, weight: np.ndarray | None = None) -> Any:
    """A boosted classifier of scikit-learn, fitted with both classes weighing alike.

    values: [N, F], NaN where unknown. label: [N] bool. weight: [N], within a class; by default equal.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    own = np.ones(len(label)) if weight is None else weight.copy()
    for one in (True, False):
        own[label == one] *= len(label) / 2 / own[label == one].sum()
    model = HistGradientBoostingClassifier(
        max_iter=30, max_leaf_nodes=8, min_samples_leaf=5, early_stopping=False, random_state=0
    )
    with one_thread():
        return model.fit(values, label, own)


def one_thread() -> AbstractContextManager[Any]:
    """A block in which the library uses one thread: on busy cores its threads wait for each other, many times longer.

    threadpoolctl is a dependency of scikit-learn.
    """
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)  # type: ignore[no-any-return]

"""Metric 5: an alarm in time that also names the cause."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from trainwreck.evaluation.specification import UNKNOWN

NOT_IN_TIME = "(not in time)"
NOT_NAMED = "(not named)"


def diagnosed(
    detected: np.ndarray,
    cause: np.ndarray,
    named: Sequence[tuple[str, ...]],
    k: int,
    unseen: Collection[str] = (),
) -> np.ndarray:
    """In time and the true cause within the first k named. [N] bool

    detected: [N] bool, metric 2. unseen: causes that no training run had, for which "unknown" is
    right as well.
    """
    right = [
        true in answer[:k] or (true in unseen and UNKNOWN in answer[:k])
        for true, answer in zip(cause, named, strict=True)
    ]
    return np.asarray(detected & np.array(right, dtype=bool))


def by_family(named: Sequence[tuple[str, ...]], family_of: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Ranked causes as ranked families, each once. A cause without a family stands for itself."""
    return [tuple(dict.fromkeys(family_of.get(cause, cause) for cause in answer)) for answer in named]


def macro(right: np.ndarray, cause: np.ndarray) -> float:
    """Mean over causes of the share of each cause's runs that are right; NaN without runs."""
    if not len(cause):
        return float("nan")
    _, code = np.unique(cause, return_inverse=True)
    return float(np.mean(np.bincount(code, weights=right) / np.bincount(code)))


def chance(cause: np.ndarray, k: int) -> float:
    """k / K: what naming k of the K causes at random is right on, were every run detected in time."""
    causes = len(np.unique(cause))
    return min(1.0, k / causes) if causes else float("nan")


def majority_prior(cause: np.ndarray, k: int) -> float:
    """Share of the runs that the k most frequent causes make up: always naming those is right on so many."""
    if not len(cause):
        return float("nan")
    _, counts = np.unique(cause, return_counts=True)
    return float(np.sort(counts)[::-1][:k].sum() / len(cause))


def confusion(detected: np.ndarray, cause: np.ndarray, named: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """Counts of true cause (rows) against the answer (columns): the first cause named in time.

    Answers besides causes: "(not in time)" and "(not named)". Lists only, JSON-safe.
    """
    answers = [
        (answer[0] if answer else NOT_NAMED) if hit else NOT_IN_TIME
        for hit, answer in zip(detected, named, strict=True)
    ]
    rows = sorted(set(cause.tolist()))
    others = sorted(set(answers) - set(rows) - {NOT_IN_TIME, NOT_NAMED})
    columns = [*rows, *others, NOT_NAMED, NOT_IN_TIME]
    counts = np.zeros((len(rows), len(columns)), dtype=np.int64)
    np.add.at(counts, ([rows.index(c) for c in cause.tolist()], [columns.index(a) for a in answers]), 1)
    return {"causes": rows, "answers": columns, "counts": counts.tolist()}

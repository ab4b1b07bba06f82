"""Metric 5: an alarm in time that also names the cause.

A compound run has two causes, joined by + in its label: naming either is right. It is a cause of its own
in macro averages and in the confusion matrix.

Within a set: causes that the profile can't tell apart form a set (`evaluation/audits/confusable/equivalence.py`), and
naming any of the true cause's set is right. That number is given with the strict one and never replaces it.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import comb
from typing import Any

import numpy as np

from trainwreck.evaluation.constants import UNKNOWN
from trainwreck.evaluation.dataset.schema import JOINT
from trainwreck.evaluation.scoring.equivalence_sets import Sets

NOT_IN_TIME = "(not in time)"
NOT_NAMED = "(not named)"
ALONE: Sets = {}


def diagnosed(
    detected: np.ndarray,
    cause: np.ndarray,
    named: Sequence[tuple[str, ...]],
    k: int,
    unseen: Collection[str] = (),
    sets: Sets = ALONE,
) -> np.ndarray:
    """In time and a true cause within the first k named. [N] bool

    detected: [N] bool, metric 2. unseen: causes that no training run had, for which "unknown" is
    right as well. sets: cause to the others of its equivalence set, which are right as well.
    """
    return np.asarray(detected & (place_of_right(cause, named, unseen, sets) < k))


def place_of_right(
    cause: np.ndarray, named: Sequence[tuple[str, ...]], unseen: Collection[str] = (), sets: Sets = ALONE
) -> np.ndarray:
    """How many answers come before the first that is right, of each run; infinite where none is. [N] float"""
    places = np.full(len(cause), np.inf)
    right: dict[str, set[str]] = {}
    for i, (true, answer) in enumerate(zip(cause.tolist(), named, strict=True)):
        if answer:
            if true not in right:
                right[true] = allowed(true, sets) | ({UNKNOWN} if true in unseen else set())
            places[i] = next((place for place, name in enumerate(answer) if name in right[true]), np.inf)
    return places


def allowed(cause: str, sets: Sets = ALONE) -> set[str]:
    """The single causes that are right for a cause: its own, and those of their sets."""
    parts = cause.split(JOINT)
    return set(parts).union(*(sets.get(part, ()) for part in parts))


def by_family(named: Sequence[tuple[str, ...]], family_of: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Ranked causes as ranked families, each once. A cause without a family is its own family."""
    return [tuple(dict.fromkeys(family_of.get(cause, cause) for cause in answer)) if answer else () for answer in named]


def macro(right: np.ndarray, cause: np.ndarray) -> float:
    """Mean over causes of the share of each cause's runs that are right; NaN without runs."""
    if not len(cause):
        return float("nan")
    _, code = np.unique(cause, return_inverse=True)
    return float(np.mean(np.bincount(code, weights=right) / np.bincount(code)))


def chance(cause: np.ndarray, k: int, sets: Sets = ALONE) -> float:
    """What naming k of the K single causes at random is right on, were every run detected in time.

    k / K, and more for causes with m right answers: the mean over causes of 1 - C(K - m, k) / C(K, k).
    """
    causes = np.unique(cause).tolist()
    if not causes:
        return float("nan")
    single = {part for name in causes for part in name.split(JOINT)}
    count, k = len(single), min(k, len(single))
    right = [len(allowed(name, sets) & single) for name in causes]
    return float(np.mean([1.0 - comb(count - m, k) / comb(count, k) for m in right]))


def majority_prior(cause: np.ndarray, k: int) -> float:
    """Share of the runs that the k most frequent single causes are causes of: always naming those is right there."""
    if not len(cause):
        return float("nan")
    parts = [name.split(JOINT) for name in cause.tolist()]
    frequent = {name for name, _ in Counter(part for names in parts for part in names).most_common(k)}
    return float(np.mean([not frequent.isdisjoint(names) for names in parts]))


def confusion(
    detected: np.ndarray, cause: np.ndarray, named: Sequence[tuple[str, ...]], weights: np.ndarray | None = None
) -> dict[str, Any]:
    """Counts of true cause (rows) against the answer (columns): the first cause named in time.

    Answers besides causes: "(not in time)" and "(not named)". weights: [N], where runs do not count the same. Lists
    only, JSON-safe.
    """
    answers = [
        (answer[0] if answer else NOT_NAMED) if hit else NOT_IN_TIME
        for hit, answer in zip(detected, named, strict=True)
    ]
    rows = sorted(set(cause.tolist()))
    others = sorted(set(answers) - set(rows) - {NOT_IN_TIME, NOT_NAMED})
    columns = [*rows, *others, NOT_NAMED, NOT_IN_TIME]
    place = {name: i for i, name in enumerate(columns)}
    counts = np.zeros((len(rows), len(columns)))
    at = [place[name] for name in cause.tolist()], [place[name] for name in answers]
    np.add.at(counts, at, 1.0 if weights is None else weights)
    return {"causes": rows, "answers": columns, "counts": counts.tolist()}

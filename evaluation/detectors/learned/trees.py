"""Boosted trees as arrays, so that a verdict needs numpy and nothing else."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Trees:
    """An additive model of binary trees; the nodes of all trees lie one after the other.

    roots: [T], each tree's first node. feature, threshold: [M], a row goes left where its value is at most the
    threshold; missing_left: [M], where it goes without a value. left, right: [M], the next node; a leaf's own.
    value: [M], of a leaf. start: what every row begins with. depth: steps from a root to any leaf.
    """

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    start: float
    depth: int

    def __call__(self, row: np.ndarray) -> float:
        """The sum over the trees for one row of features, [F]; NaN is a missing value."""
        seen = row[self.feature]
        go_left = np.where(seen == seen, seen <= self.threshold, self.missing_left)
        follow = np.where(go_left, self.left, self.right)
        at = self.roots
        for _ in range(self.depth):
            at = follow[at]
        return self.start + float(self.value[at].sum())

    def many(self, rows: np.ndarray) -> np.ndarray:
        """The same for each of many rows, [N, F] to [N]."""
        total = np.full(len(rows), self.start)
        for root in self.roots:
            at = np.full(len(rows), root)
            for _ in range(self.depth):
                seen = rows[np.arange(len(rows)), self.feature[at]]
                go_left = np.where(seen == seen, seen <= self.threshold[at], self.missing_left[at])
                at = np.where(go_left, self.left[at], self.right[at])
            total += self.value[at]
        return total

    def renumbered(self, chosen: np.ndarray) -> "Trees":
        """The same trees where feature i is called chosen[i]."""
        return Trees(**{**vars(self), "feature": np.asarray(chosen)[self.feature]})


def from_boosting(model: Any) -> Trees:
    """The trees of a fitted binary scikit-learn HistGradientBoostingClassifier without categorical features.

    It offers no public way to its trees: this reads what scikit-learn 1.5 to 1.9 keep, and a test holds that both
    give the same number.
    """
    parts: dict[str, list[np.ndarray]] = {name: [] for name in _FIELDS}
    roots, count, depth = [], 0, 0
    for (tree,) in model._predictors:
        nodes = tree.nodes
        leaf = nodes["is_leaf"].astype(bool)
        own = np.arange(len(nodes))
        roots.append(count)
        parts["feature"].append(np.where(leaf, 0, nodes["feature_idx"]))
        parts["threshold"].append(np.where(leaf, 0.0, nodes["num_threshold"]))
        parts["missing_left"].append(nodes["missing_go_to_left"].astype(bool))
        parts["left"].append(np.where(leaf, own, nodes["left"]) + count)
        parts["right"].append(np.where(leaf, own, nodes["right"]) + count)
        parts["value"].append(np.where(leaf, nodes["value"], 0.0))
        depth = max(depth, int(nodes["depth"].max()))
        count += len(nodes)
    arrays: dict[str, Any] = {name: np.concatenate(part).astype(_FIELDS[name]) for name, part in parts.items()}
    start = float(np.ravel(model._baseline_prediction)[0])
    return Trees(np.array(roots, dtype=np.int32), **arrays, start=start, depth=depth)


_FIELDS = {
    "feature": np.int32,
    "threshold": np.float64,
    "missing_left": np.bool_,
    "left": np.int32,
    "right": np.int32,
    "value": np.float64,
}


def gains(model: Any, count: int) -> np.ndarray:
    """By how much each of `count` features improved the fit over all splits, [count]."""
    total = np.zeros(count)
    for (tree,) in model._predictors:
        inner = ~tree.nodes["is_leaf"].astype(bool)
        np.add.at(total, tree.nodes["feature_idx"][inner], tree.nodes["gain"][inner])
    return total

"""A forest of classifying trees as arrays: a leaf holds the few causes whose rows ended in it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

MISSING = -99.0  # stands for a feature that is not known: all others are larger
WIDEST = 1e3  # features are cut off here


@dataclass(frozen=True)
class Forest:
    """Trees whose nodes lie one after the other.

    roots: [T], each tree's first node. feature, threshold: [M], a row goes left where its value is at most the
    threshold. left, right: [M], the next node; a leaf's own. leaf: [M + 1], where the causes of a node begin in cause
    and share: [E], so many of its training rows, by weight. Nodes that are no leaves have none. classes: C.
    """

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    leaf: np.ndarray
    cause: np.ndarray
    share: np.ndarray
    classes: int

    def probabilities(self, rows: np.ndarray) -> np.ndarray:
        """Mean share of each class over the trees, [N, F] as `filled` gives them to [N, C]."""
        at = np.repeat(self.roots.astype(np.int64)[None], len(rows), axis=0)
        which = np.arange(len(rows))[:, None]
        while True:
            go_left = rows[which, self.feature[at]] <= self.threshold[at]
            further = np.where(go_left, self.left[at], self.right[at]).astype(np.int64)
            if (further == at).all():
                break
            at = further
        found = np.zeros((len(rows), self.classes))
        for i, nodes in enumerate(at):
            for node in nodes:
                here = slice(self.leaf[node], self.leaf[node + 1])
                found[i, self.cause[here]] += self.share[here]
        return found / len(self.roots)

    def renumbered(self, chosen: np.ndarray) -> "Forest":
        """The same trees where feature i is called chosen[i]."""
        return Forest(**{**vars(self), "feature": np.asarray(chosen)[self.feature]})


def filled(rows: np.ndarray) -> np.ndarray:
    """Rows of features as the trees were grown on: float32 within limits, with a number for what is missing."""
    return np.where(np.isnan(rows), MISSING, np.clip(rows, -WIDEST, WIDEST)).astype(np.float32)


def from_forest(model: Any) -> Forest:
    """The trees of a fitted scikit-learn ExtraTreesClassifier or RandomForestClassifier with one output."""
    roots, features, thresholds, lefts, rights, sizes, causes, shares = [], [], [], [], [], [], [], []
    count = 0
    for estimator in model.estimators_:
        tree = estimator.tree_
        own = np.arange(tree.node_count)
        is_leaf = tree.children_left < 0
        value = np.where(is_leaf[:, None], tree.value[:, 0, :], 0.0)
        value = value / np.maximum(value.sum(1, keepdims=True), 1e-300)
        node, cause = np.nonzero(value)
        roots.append(count)
        features.append(np.where(is_leaf, 0, tree.feature))
        thresholds.append(np.where(is_leaf, 0.0, tree.threshold))
        lefts.append(np.where(is_leaf, own, tree.children_left) + count)
        rights.append(np.where(is_leaf, own, tree.children_right) + count)
        sizes.append(np.bincount(node, minlength=tree.node_count))
        causes.append(cause)
        shares.append(value[node, cause])
        count += tree.node_count
    return Forest(
        np.array(roots, dtype=np.uint32),
        np.concatenate(features).astype(np.uint16),
        _float32_below(np.concatenate(thresholds)),
        np.concatenate(lefts).astype(np.uint32),
        np.concatenate(rights).astype(np.uint32),
        np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.uint32),
        np.concatenate(causes).astype(np.uint16),
        np.concatenate(shares),
        len(model.classes_),
    )


def _float32_below(values: np.ndarray) -> np.ndarray:
    """The largest float32 that is at most the value: no float32 lies between, so comparisons stay what they are."""
    near = values.astype(np.float32)
    return np.where(near > values, np.nextafter(near, np.float32(-np.inf)), near)

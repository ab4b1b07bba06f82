"""The trees of fitted scikit-learn models, as the arrays that the detector reads."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainwreck.evaluation.detectors.learned.trees import Forest, Trees


def from_boosting(model: Any) -> Trees:
    """The trees of a fitted binary HistGradientBoostingClassifier without categorical features.

    It offers no public way to its trees: this reads what scikit-learn 1.5 to 1.9 keep, and a test holds that both
    give the same number.
    """
    trees = [tree.nodes for (tree,) in model._predictors]
    nodes = np.concatenate(trees)
    leaf = nodes["is_leaf"].astype(bool)
    return Trees(
        roots=_starts([len(one) for one in trees]).astype(np.int32),
        feature=np.where(leaf, 0, nodes["feature_idx"]).astype(np.int32),
        threshold=np.where(leaf, 0.0, nodes["num_threshold"]),
        left=_next([one["left"] for one in trees], leaf).astype(np.int32),
        right=_next([one["right"] for one in trees], leaf).astype(np.int32),
        missing_left=nodes["missing_go_to_left"].astype(bool),
        value=np.where(leaf, nodes["value"], 0.0),
        start=float(np.ravel(model._baseline_prediction)[0]),
        depth=int(nodes["depth"].max()),
    )


def mean_of(models: Sequence[Trees]) -> Trees:
    """One model whose score is the mean of theirs."""
    shift = _starts([len(one.feature) for one in models])

    def joined(name: str, shifted: bool = False) -> np.ndarray:
        parts = [getattr(one, name) for one in models]
        return np.concatenate([part + by for part, by in zip(parts, shift, strict=True)] if shifted else parts)

    return Trees(
        roots=joined("roots", shifted=True).astype(np.int32),
        feature=joined("feature"),
        threshold=joined("threshold"),
        left=joined("left", shifted=True).astype(np.int32),
        right=joined("right", shifted=True).astype(np.int32),
        missing_left=joined("missing_left"),
        value=joined("value") / len(models),
        start=float(np.mean([one.start for one in models])),
        depth=max(one.depth for one in models),
    )


def gains(model: Any, count: int) -> np.ndarray:
    """By how much each of `count` features improved the fit of such a model over all splits, [count]."""
    total = np.zeros(count)
    for (tree,) in model._predictors:
        inner = ~tree.nodes["is_leaf"].astype(bool)
        np.add.at(total, tree.nodes["feature_idx"][inner], tree.nodes["gain"][inner])
    return total


def from_forest(model: Any) -> Forest:
    """The trees of a fitted ExtraTreesClassifier or RandomForestClassifier with one output."""
    trees = [estimator.tree_ for estimator in model.estimators_]
    leaf = np.concatenate([tree.children_left for tree in trees]) < 0
    value = np.where(leaf[:, None], np.concatenate([tree.value[:, 0, :] for tree in trees]), 0.0)
    value = value / np.maximum(value.sum(1, keepdims=True), 1e-300)
    node, cause = np.nonzero(value)
    return Forest(
        roots=_starts([tree.node_count for tree in trees]).astype(np.uint32),
        feature=np.where(leaf, 0, np.concatenate([tree.feature for tree in trees])).astype(np.uint16),
        threshold=_float32_below(np.where(leaf, 0.0, np.concatenate([tree.threshold for tree in trees]))),
        left=_next([tree.children_left for tree in trees], leaf).astype(np.uint32),
        right=_next([tree.children_right for tree in trees], leaf).astype(np.uint32),
        leaf=np.concatenate([[0], np.cumsum(np.bincount(node, minlength=len(leaf)))]).astype(np.uint32),
        cause=cause.astype(np.uint16),
        share=value[node, cause],
        classes=len(model.classes_),
    )


def _starts(sizes: Sequence[int]) -> np.ndarray:
    """Each tree's first node, where their nodes lie one after the other. [T]"""
    return np.cumsum([0, *sizes])[:-1]


def _next(children: Sequence[np.ndarray], leaf: np.ndarray) -> np.ndarray:
    """The left or the right children of all nodes, a leaf's own, [M]. children: of each tree, from its first node."""
    sizes = [len(one) for one in children]
    own = np.arange(len(leaf))
    return np.where(leaf, own, np.concatenate(children) + np.repeat(_starts(sizes), sizes))


def _float32_below(values: np.ndarray) -> np.ndarray:
    """The largest float32 that is at most the value: no float32 lies between, so comparisons stay what they are."""
    near = values.astype(np.float32)
    return np.where(near > values, np.nextafter(near, np.float32(-np.inf)), near)

"""Fitted trees as arrays, so that a verdict needs numpy and nothing else, and a file of them holds only numbers."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

MISSING = -99.0  # stands for a feature that a forest does not know: all others are larger
WIDEST = 1e3  # features of a forest are cut off here


@dataclass(frozen=True)
class Nodes:
    """Binary trees whose nodes lie one after the other.

    roots: [T], each tree's first node. feature, threshold: [M], a row goes left where its value is at most the
    threshold. left, right: [M], the next node; a leaf's own.
    """

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray

    def renumbered(self, chosen: np.ndarray) -> Self:
        """The same trees where feature i is called chosen[i]."""
        return replace(self, feature=np.asarray(chosen)[self.feature])


@dataclass(frozen=True)
class Trees(Nodes):
    """An additive model.

    missing_left: [M], where a row without the value goes. value: [M], of a leaf. start: what every row begins with.
    depth: steps from a root to any leaf.
    """

    missing_left: np.ndarray
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


@dataclass(frozen=True)
class Forest(Nodes):
    """Classifying trees, of rows as `filled` gives them: a leaf holds the few causes whose rows ended in it.

    leaf: [M + 1], where the causes of a node begin in cause and share: [E], so many of its training rows, by weight.
    Nodes that are no leaves have none. classes: C.
    """

    leaf: np.ndarray
    cause: np.ndarray
    share: np.ndarray
    classes: int

    def probabilities(self, rows: np.ndarray) -> np.ndarray:
        """Mean share of each class over the trees, [N, F] to [N, C]."""
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


def filled(rows: np.ndarray) -> np.ndarray:
    """Rows of features as a forest is grown on: float32 within limits, with a number for what is missing."""
    return np.where(np.isnan(rows), MISSING, np.clip(rows, -WIDEST, WIDEST)).astype(np.float32)

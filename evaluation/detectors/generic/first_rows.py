"""ECOD and isolation forest: outliers against the run's own first rows."""

import math
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from trainwreck.evaluation.detectors.base import QUIET, Verdict, finite_score
from trainwreck.evaluation.detectors.generic.series import Gated, SeriesDetector
from trainwreck.evaluation.detectors.registry import EXTRA, register
from trainwreck.evaluation.extras import require

FIRST = 32  # rows to train on
TREES = 50  # of an isolation forest: half the library's: time is proportional to them, and there are 32 rows to divide


class FirstRows(SeriesDetector):
    """Base class: a batch detector fitted on the first 32 rows with finite numbers, then asked every so many rows.

    The score is the largest of the batch; the alarm is the library's, at the tenth of the first rows
    that is farthest out. The numbers are those that every one of the first rows has; a later row
    without them is passed over.
    """

    signals = ("loss", "grad_norm")
    requires = ("pyod",)
    model: ClassVar[tuple[str, str]]  # module and class
    batch: ClassVar[int] = 8  # rows that are scored at once: a call costs as much for one as for all

    def begin(self) -> None:
        require(self.model[0], EXTRA)
        self.fitted: Any = None
        self.names: tuple[str, ...] = ()
        self.waiting: list[Mapping[str, float]] = []

    def make(self) -> Any:
        """A fresh model of the library."""
        return getattr(require(self.model[0], EXTRA), self.model[1])()

    def scores(self, table: np.ndarray) -> np.ndarray:
        """The fitted model's scores of rows, [R, signals] to [R]."""
        return np.asarray(self.fitted.decision_function(table))

    def step(self, values: Mapping[str, float]) -> Verdict:
        # The library refuses what is not finite, so it is never shown it.
        if not all(math.isfinite(value) for value in values.values()):
            return QUIET
        if any(name not in values for name in self.names):
            return QUIET
        self.waiting.append(values)
        if len(self.waiting) < (FIRST if self.fitted is None else self.batch):
            return QUIET
        self.names = self.names or tuple(n for n in self.signals if all(n in one for one in self.waiting))
        table = np.clip([[one[name] for name in self.names] for one in self.waiting], -1e30, 1e30)
        self.waiting = []
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # of moments of numbers that are all alike
            if self.fitted is None:
                self.fitted = self.make().fit(table)
                return QUIET
            score = float(np.max(self.scores(table)))
        return Verdict(finite_score(score), score > float(self.fitted.threshold_))


def _lengths(tree: Any) -> np.ndarray:
    """Steps from the root to each node of a tree, with those that its rows would need to be told apart, [nodes]."""
    nodes = np.zeros(tree.node_count)
    for parent, children in enumerate(zip(tree.children_left, tree.children_right, strict=True)):
        for child in children:
            if child >= 0:  # after its parent
                nodes[child] = nodes[parent] + 1
    return np.asarray((nodes + 1 + _expected_length(tree.n_node_samples.astype(float))) - 1.0)


def _expected_length(rows: np.ndarray) -> np.ndarray:
    """Mean length of an unsuccessful search in a binary tree of so many rows (Liu, Ting and Zhou 2008, equation 1)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = 2.0 * (np.log(rows - 1.0) + np.euler_gamma) - 2.0 * (rows - 1.0) / rows
    return np.where(rows <= 1, 0.0, np.where(rows == 2, 1.0, found))


@register
class Ecod(FirstRows):
    """The score is the sum over signals of -log of the tail's share.

    >>> detector = Ecod()
    >>> detector.reset(None)
    >>> losses = [1.0 + 0.01 * (i % 5) for i in range(63)]
    >>> found = [detector.update({"step": i, "loss": x}).score for i, x in enumerate([*losses, 50.0])]
    >>> found[63] > found[55] > 0.0
    True
    """

    name = "ecod"
    rule = "every 8 rows: ECOD of loss and gradient norm, farther out than 0.9 of the first 32 rows"
    source = "Li et al. 2022, ECOD: unsupervised outlier detection using empirical cumulative distribution; pyod"
    blind_spots = (
        "NaN and infinity, which it never sees; the first 32 rows. What lies beyond the first rows lies beyond them by "
        "as much, a step or a thousand: a healthy loss soon does. A tenth of ordinary rows alarm by design."
    )
    model = ("pyod.models.ecod", "ECOD")


@register
class IForest(FirstRows):
    """The score is the library's: the isolation forest's, larger where a row is isolated sooner.

    >>> detector = IForest()
    >>> detector.reset(None)
    >>> losses = [1.0 + 0.01 * (i % 5 if i < 32 else 2) for i in range(63)]
    >>> found = [detector.update({"step": i, "loss": x}).score for i, x in enumerate([*losses, 50.0])]
    >>> found[63] > found[47]
    True
    """

    name = "iforest"
    rule = "every 16 rows: isolation forest of loss and gradient norm, farther out than 0.9 of the first 32 rows"
    source = "Liu, Ting and Zhou 2008, Isolation forest; pyod; 50 trees in place of 100, seed 0"
    blind_spots = Ecod.blind_spots
    model = ("pyod.models.iforest", "IForest")
    batch = 16

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def begin(self) -> None:
        super().begin()
        self.paths: list[tuple[Any, np.ndarray]] = []  # of each tree, with the length of the path to each node

    def make(self) -> Any:
        return require(self.model[0], EXTRA).IForest(n_estimators=TREES, random_state=self.seed)

    def scores(self, table: np.ndarray) -> np.ndarray:
        """The library's scores, bitwise; its own checks of every tree at every call take most of its time."""
        forest = self.fitted.detector_
        self.paths = self.paths or [(one.tree_, _lengths(one.tree_)) for one in forest.estimators_]
        values = np.ascontiguousarray(table, np.float32)
        depths = np.zeros(len(table))
        for tree, lengths in self.paths:
            depths += lengths[tree.apply(values)]
        usual = len(self.paths) * _expected_length(np.array([float(min(FIRST, forest.max_samples_))]))
        return np.asarray(2 ** (-depths / usual) + forest.offset_)


@register
class EcodGated(Gated, Ecod):
    """The same of surprises.

    >>> detector = EcodGated()
    >>> detector.reset(None)
    >>> detector.update({"step": 0, "loss": float("nan")}).alarm
    True
    """

    name = "ecod_gated"
    rule = "gate; then every 8 rows ECOD of the surprise in loss and gradient norm, trained on 32 rows"
    blind_spots = "The first 56 rows; slow changes; how far beyond the first rows a row lies. A tenth of rows alarm."


@register
class IForestGated(Gated, IForest):
    """The same of surprises.

    >>> detector = IForestGated()
    >>> detector.reset(None)
    >>> detector.update({"step": 0, "loss": float("nan")}).alarm
    True
    """

    name = "iforest_gated"
    rule = "gate; then every 16 rows an isolation forest of the surprise in loss and gradient norm, trained on 32 rows"
    blind_spots = EcodGated.blind_spots

"""Half-space trees: an online isolation forest."""

from collections.abc import Mapping

from trainwreck.evaluation.detectors.base import Verdict, finite_score
from trainwreck.evaluation.detectors.generic.series import FARTHEST, Gated, SeriesDetector
from trainwreck.evaluation.detectors.registry import EXTRA, register
from trainwreck.evaluation.extras import require

WINDOW = 64  # rows; the library's default of 250 is most of a small run


@register
class HalfSpaceTrees(SeriesDetector):
    """The score is the library's, 0 to 1. A row is scored before it is learnt.

    Ten trees of height 8, scaled by the least and the largest value so far. The number of signals is
    that of the first row.

    >>> detector = HalfSpaceTrees()
    >>> detector.reset(None)
    >>> losses = [0.0, *(0.85 + 0.05 * (i % 3) for i in range(99)), 0.1]
    >>> scores = [detector.update({"step": i, "loss": x}).score for i, x in enumerate(losses)]
    >>> scores[63], scores[-1] > 0.99 > 0.7 > scores[-2] > 0.0
    (0.0, True)
    """

    name = "half_space_trees"
    rule = "half-space trees of loss and gradient norm, window of 64 rows: score over 0.99"
    source = "Tan, Ting and Liu 2011, Fast anomaly detection for streaming data; river; window and threshold are ours"
    blind_spots = (
        "The first 64 rows. Beyond the range that it knows everything is alike; a falling loss is at its edge all the "
        "time. One infinity, and the scale is lost for ever; NaN goes down one side of each tree like a number."
    )
    signals = ("loss", "grad_norm")
    requires = ("river",)
    limits: Mapping[str, tuple[float, float]] | None = None

    def __init__(self, threshold: float = 0.99, seed: int = 0) -> None:
        self.threshold, self.seed = threshold, seed

    def begin(self) -> None:
        trees = require("river.anomaly", EXTRA).HalfSpaceTrees
        self.trees = trees(window_size=WINDOW, seed=self.seed, limits=self.limits)
        self.scaler = None if self.limits else require("river.preprocessing", EXTRA).MinMaxScaler()

    def step(self, values: Mapping[str, float]) -> Verdict:
        score = float(self.trees.score_one(self._scaled(values))) if self.trees.trees else 0.0
        if self.scaler is not None:
            self.scaler.learn_one(dict(values))
        self.trees.learn_one(self._scaled(values))
        return Verdict(finite_score(score), score > self.threshold)

    def _scaled(self, values: Mapping[str, float]) -> dict[str, float]:
        return dict(values) if self.scaler is None else dict(self.scaler.transform_one(dict(values)))


@register
class HalfSpaceTreesGated(Gated, HalfSpaceTrees):
    """The same of surprises, which have a scale by construction.

    >>> detector = HalfSpaceTreesGated()
    >>> detector.reset(None)
    >>> detector.update({"step": 0, "loss": float("nan")}).alarm
    True
    """

    name = "half_space_trees_gated"
    rule = "gate; then half-space trees of the surprise in loss and gradient norm: score over 0.8"
    blind_spots = "The first 88 rows; slow changes, which the trend of the gate follows; what stays is soon the norm."
    limits = {"loss": (-FARTHEST, FARTHEST), "grad_norm": (-FARTHEST, FARTHEST)}

    def __init__(self, threshold: float = 0.8, seed: int = 0) -> None:
        super().__init__(threshold, seed)

"""Lightning's EarlyStopping, the library's own."""

import math
from types import SimpleNamespace
from typing import Any

from trainwreck.evaluation.detectors.base import LARGEST_SCORE, QUIET, Context, Detector, Row, Verdict
from trainwreck.evaluation.detectors.registry import EXTRA, register
from trainwreck.evaluation.extras import require


@register
class LightningEarlyStopping(Detector):
    """The score is the number of evaluations in a row without a new best, the largest there is at a non-finite one.

    The callback is asked at each evaluation as its trainer would ask it, through a stand-in that has
    what it looks at. Its thresholds (`stopping_threshold`, `divergence_threshold`) are off by default.
    The library brings PyTorch with it, which is loaded when the first run begins.

    >>> detector = LightningEarlyStopping()
    >>> detector.reset(None)
    >>> losses = [3.0, 2.0, 2.1, None, 2.2, 2.0, 1.9]
    >>> [detector.update({"step": i, "validation_loss": x}).alarm for i, x in enumerate(losses)]
    [False, False, False, False, False, True, False]
    """

    name = "lightning_early_stopping"
    rule = "validation loss is NaN or infinite, or has no new best in 3 evaluations in a row"
    source = "PyTorch Lightning, EarlyStopping: patience 3, min_delta 0, check_finite on, thresholds off"
    blind_spots = (
        "Everything between two evaluations, and where nothing is evaluated: with loss and learning rate alone it sees "
        "nothing. Damage that still improves; and noise about a plateau is three evaluations without a best."
    )
    signals = ("validation_loss",)
    requires = ("pytorch_lightning",)

    def __init__(
        self,
        patience: int = 3,
        min_delta: float = 0.0,
        stopping_threshold: float | None = None,
        divergence_threshold: float | None = None,
    ) -> None:
        self.settings: dict[str, Any] = {
            "patience": patience,
            "min_delta": min_delta,
            "stopping_threshold": stopping_threshold,
            "divergence_threshold": divergence_threshold,
        }

    def reset(self, context: Context | None) -> None:
        callbacks = require("pytorch_lightning.callbacks", EXTRA)
        states = require("pytorch_lightning.trainer.states", EXTRA)
        self.tensor = require("torch", EXTRA).tensor
        self.callback = callbacks.EarlyStopping("val_loss", check_on_train_epoch_end=False, **self.settings)
        self.trainer = SimpleNamespace(
            state=SimpleNamespace(fn=states.TrainerFn.FITTING),
            strategy=SimpleNamespace(reduce_boolean_decision=_alone),
            sanity_checking=False,
            fast_dev_run=False,
            current_epoch=0,
            callback_metrics={},
            should_stop=False,
        )

    def update(self, row: Row) -> Verdict:
        loss = row.get("validation_loss")
        if loss is None:
            return QUIET
        self.trainer.should_stop = False
        self.trainer.callback_metrics = {"val_loss": self.tensor(float(loss))}
        self.callback.on_validation_end(self.trainer, None)
        score = float(self.callback.wait_count) if math.isfinite(loss) else LARGEST_SCORE
        return Verdict(score, bool(self.trainer.should_stop))


def _alone(decision: bool, all: bool = True) -> bool:
    """What one process decides, all decide."""
    return decision

"""Transformers' EarlyStoppingCallback, the library's own."""

from types import SimpleNamespace

from trainwreck.evaluation.detectors.base import QUIET, Context, Detector, Row, Verdict
from trainwreck.evaluation.detectors.registry import EXTRA, register
from trainwreck.evaluation.extras import require


@register
class HfEarlyStopping(Detector):
    """The score is the number of evaluations in a row without a new best.

    The callback is asked at each evaluation; the best loss is kept in its `TrainerState` as the
    library's Trainer does, which takes only what compares as less. The library brings PyTorch with
    it, which is loaded when the first run begins.

    >>> detector = HfEarlyStopping()
    >>> detector.reset(None)
    >>> losses = [3.0, None, 2.0, 2.1, 1.9]
    >>> [detector.update({"step": i, "validation_loss": x}).alarm for i, x in enumerate(losses)]
    [False, False, False, True, False]
    """

    name = "hf_early_stopping"
    rule = "validation loss has no new best at an evaluation"
    source = "Transformers, EarlyStoppingCallback: patience 1, threshold 0"
    blind_spots = (
        "Everything between two evaluations, and where nothing is evaluated. NaN is no new best, so it alarms, but not "
        "at the first evaluation; damage that still improves; one unlucky evaluation in a healthy run is an alarm."
    )
    signals = ("validation_loss",)
    requires = ("transformers",)

    def __init__(self, patience: int = 1, threshold: float = 0.0) -> None:
        self.patience, self.threshold = patience, threshold

    def reset(self, context: Context | None) -> None:
        library = require("transformers.trainer_callback", EXTRA)
        self.callback = library.EarlyStoppingCallback(self.patience, self.threshold)
        self.state, self.control = library.TrainerState(), library.TrainerControl()
        self.arguments = SimpleNamespace(
            metric_for_best_model="loss", greater_is_better=False, load_best_model_at_end=True, eval_strategy="steps"
        )
        self.callback.on_train_begin(self.arguments, self.state, self.control)

    def update(self, row: Row) -> Verdict:
        loss = row.get("validation_loss")
        if loss is None:
            return QUIET
        self.control.should_training_stop = False
        self.callback.on_evaluate(self.arguments, self.state, self.control, metrics={"eval_loss": loss})
        best = self.state.best_metric
        if best is None:
            best = float("inf")
        self.state.best_metric = loss if loss < best else best
        score = float(self.callback.early_stopping_patience_counter)
        return Verdict(score, bool(self.control.should_training_stop))

"""Detectors as a callback of Lightning, which is imported when the callback is made."""

import importlib.util
from collections.abc import Mapping
from functools import cache
from typing import Any

from trainwreck.evaluation.dataset.schema import EVALUATIONS
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.extras import require
from trainwreck.evaluation.live.actions import OnAlarm, in_training
from trainwreck.evaluation.live.monitor import Alarm, Monitor, logger
from trainwreck.evaluation.live.transformers import Detectors
from trainwreck.evaluation.logs.names import signal_of


def lightning_callback(
    detectors: Detectors, on_alarm: OnAlarm = "log", *, mapping: Mapping[str, str] | None = None, every: int = 1
) -> Any:
    """A Lightning `Callback` that shows detectors the loss, the learning rate and what the module logs.

    on_alarm and mapping: as for `transformers_callback`. every: optimizer steps between two rows; each row
    fetches its numbers from the device. The loss is the one that `training_step` returned, the learning rate
    the first group's of the first optimizer; other signals are those that the module logs under known names.
    With several processes all stop when one does. InputError without Lightning, or for a detector that is none.

    Source: Lightning, `Callback.on_train_batch_end` and `Trainer.should_stop`.
    """
    if every < 1:
        raise InputError(f"every: {every} is not allowed; allowed: 1 and more")
    evaluations = {name for name, signal in (mapping or {}).items() if signal in EVALUATIONS}
    return _callback_class()(Monitor(detectors, mapping=mapping), in_training(on_alarm), every, evaluations)


def _library() -> Any:
    """Lightning under the name that is installed: a trainer takes callbacks of its own package only."""
    name = "lightning.pytorch" if importlib.util.find_spec("lightning") else "pytorch_lightning"
    return require(name, "monitors")


@cache
def _callback_class() -> Any:
    library = _library()

    class TrainwreckCallback(library.Callback):  # type: ignore[misc, name-defined]
        def __init__(self, monitor: Monitor, act: Any, every: int, evaluations: set[str]) -> None:
            self.monitor, self.act, self.every, self.evaluations = monitor, act, every, evaluations
            self.alarms: list[Alarm] = []
            self.step = 0

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, index: int) -> None:
            step = trainer.global_step
            if step == self.step or step % self.every:  # gradients are still being accumulated, or not its turn
                return
            self.step = step
            # A validation loss stays among the metrics until the next one: it is taken when it is new.
            row = self._metrics(trainer, evaluations=False)
            loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
            if loss is not None:
                row["loss"] = loss.detach()
            if trainer.optimizers:
                row["lr"] = trainer.optimizers[0].param_groups[0]["lr"]
            self._see(trainer, row, step)

        def on_validation_end(self, trainer: Any, module: Any) -> None:
            if not trainer.sanity_checking:
                self._see(trainer, self._metrics(trainer, evaluations=True), trainer.global_step)

        def on_train_end(self, trainer: Any, module: Any) -> None:
            self.monitor.close()

        def _metrics(self, trainer: Any, *, evaluations: bool) -> dict[str, Any]:
            found = trainer.callback_metrics.items()
            return {
                name: value
                for name, value in found
                if (name in self.evaluations or signal_of(name)[0] in EVALUATIONS) == evaluations
            }

        def _see(self, trainer: Any, row: dict[str, Any], step: int) -> None:
            try:
                found = self.monitor.update(row, step) if row else []
            except InputError as error:
                logger.warning("%s", error)
                found = []
            self.alarms += found
            stop = False
            for alarm in found:  # each of them is acted on
                stop |= self.act(alarm)
            if trainer.world_size > 1:
                stop = trainer.strategy.reduce_boolean_decision(stop, all=False)
            trainer.should_stop = trainer.should_stop or stop

    return TrainwreckCallback

"""Detectors as a callback of the Transformers Trainer, which is imported when the callback is made."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from trainwreck.evaluation.detectors.base import Detector
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.extras import require
from trainwreck.evaluation.live.actions import OnAlarm, in_training
from trainwreck.evaluation.live.monitor import Alarm, Monitor, logger

Detectors = str | Detector | type[Detector] | Sequence[str | Detector | type[Detector]]


def transformers_callback(
    detectors: Detectors, on_alarm: OnAlarm = "log", *, mapping: Mapping[str, str] | None = None
) -> Any:
    """A `TrainerCallback` that shows detectors what the Trainer logs, at its `logging_steps`.

    on_alarm: "log" warns (logger "trainwreck"), "stop" also ends the training after the step, a function is
    called with the `Alarm` and ends it by returning True. mapping: names of your own to signals. The callback's
    `monitor` and `alarms` can be read afterwards. By default the Trainer hides NaN from its log: set
    `logging_nan_inf_filter=False`. InputError without Transformers, or for a detector that is none.

    Source: Transformers, `TrainerCallback.on_log` and `TrainerControl.should_training_stop`.
    """
    return _callback_class()(Monitor(detectors, mapping=mapping), in_training(on_alarm))


@cache
def _callback_class() -> Any:
    library = require("transformers", "monitors")

    class TrainwreckCallback(library.TrainerCallback):  # type: ignore[misc, name-defined]
        def __init__(self, monitor: Monitor, act: Any) -> None:
            self.monitor, self.act = monitor, act
            self.alarms: list[Alarm] = []

        def on_train_begin(self, args: Any, state: Any, control: Any, **also: Any) -> None:
            if getattr(args, "logging_nan_inf_filter", False):
                logger.warning("logging_nan_inf_filter is on: a NaN loss does not show in what the Trainer logs")

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **also: Any) -> None:
            if not logs or "train_runtime" in logs:  # the run's summary: its train_loss is a mean over all
                return
            try:
                found = self.monitor.update(logs, state.global_step)
            except InputError as error:
                logger.warning("%s", error)
                return
            self.alarms += found
            # Every process logs the same numbers, so all of them stop at the same step.
            for alarm in found:
                if self.act(alarm):
                    control.should_training_stop = True

        def on_train_end(self, args: Any, state: Any, control: Any, **also: Any) -> None:
            self.monitor.close()

    return TrainwreckCallback

"""The rows of a run's log, as its logging configuration leaves them."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from trainwreck.evaluation.detectors.base import Row
from trainwreck.evaluation.replay.logged.config import AT_STEP, AVERAGE, BEFORE, BLANK, LAST, ZERO, LoggingConfig
from trainwreck.evaluation.replay.rows import blank


def logged_rows(rows: Iterable[Row], config: LoggingConfig) -> Iterator[dict[str, Any]]:
    """Rows of a log of full rows in the order of their steps; a value that is not logged is None.

    >>> rows = [{"step": step, "loss": 4.0 - step} for step in range(4)]
    >>> [(row["step"], row["loss"]) for row in logged_rows(rows, LoggingConfig(((0, 2),), loss="mean", shift=1.0))]
    [(0, 5.0), (2, 3.5)]
    """
    loss = _Loss(config)
    evaluation: float | None = None
    window = -1  # the last stretch of steps of which an evaluation was logged
    for row in rows:
        step = row["step"]
        value = row.get("loss")
        if value is not None:
            if config.not_finite == BEFORE and not math.isfinite(value):
                return
            loss.push(value)
        evaluated = row.get("validation_loss")
        if evaluated is not None and step // config.evaluated != window:
            window = step // config.evaluated
            evaluation = evaluated if "validation_loss" in config.signals else None
        due = config.due(step)
        if not due and (evaluation is None or not config.own_rows):
            continue
        seen = blank(row)
        if evaluation is not None:
            seen["validation_loss"], evaluation = _level(config, evaluation), None
        if due:
            value = loss.taken()
            seen["loss"] = None if value is None else _level(config, value)
            if "grad_norm" in config.signals and row.get("grad_norm") is not None:
                seen["grad_norm"] = _number(config, config.grad_scale * row["grad_norm"])
            if "lr" in config.signals:
                seen["lr"] = row.get("lr")
        yield seen
        if config.not_finite == LAST and seen["loss"] is not None and not math.isfinite(seen["loss"]):
            return


class _Loss:
    """The training loss since the row before, or over all steps, as the configuration has it."""

    def __init__(self, config: LoggingConfig) -> None:
        self.config = config
        self.total, self.count = 0.0, 0
        self.last: float | None = None

    def push(self, value: float) -> None:
        """Add the loss of a step."""
        self.last = value
        if self.config.loss == AVERAGE:
            self.total = self.config.factor * self.total + (1 - self.config.factor) * value
        else:
            self.total += value
        self.count += 1

    def taken(self) -> float | None:
        """The loss of a row; a mean is reset."""
        if self.config.loss == AT_STEP:
            value, self.last = self.last, None
            return value
        if not self.count:
            return None
        if self.config.loss == AVERAGE:  # without the bias towards 0 of the first steps
            return self.total / (1 - self.config.factor**self.count)
        value, self.total, self.count = self.total / self.count, 0.0, 0
        return value


def _level(config: LoggingConfig, loss: float) -> float | None:
    """A loss as the log has it, in its unit and to its digits."""
    if config.not_finite == ZERO and not math.isfinite(loss):
        return 0.0
    return _number(config, config.scale * loss + config.shift)


def _number(config: LoggingConfig, value: float) -> float | None:
    """The number that is read back from the log's text."""
    if config.not_finite == BLANK and math.isnan(value):
        return None
    return float(np.float32(config.text(value)))

"""What a reader checks beside the curves: numbers that are wrong by themselves, whatever the loss does.

As with the curves (`evidence.py`) everything is counted in rows, and what was never logged is NaN.
"""

import math
from collections import deque

from trainwreck.evaluation.detectors.base import Row
from trainwreck.evaluation.detectors.playbook.evidence import Past, median, ratio
from trainwreck.evaluation.detectors.playbook.fall import Fall
from trainwreck.evaluation.detectors.streaming import number

REMEMBERED = 512  # batches
LEVEL = 8  # rows that a level is the average of
EVALUATIONS = 6  # under so many the shape of the validation loss is not judged
NOTHING = 1e-9  # a gradient or an update under this is none


class Level:
    """An average over the latest rows; NaN before there is a value."""

    def __init__(self) -> None:
        self.value = math.nan

    def push(self, value: float) -> None:
        if math.isfinite(value):
            step = value - (value if math.isnan(self.value) else self.value)
            self.value = (value if math.isnan(self.value) else self.value) + step * 2.0 / (LEVEL + 1)


class Integrity:
    """What is true of the run after the latest row, besides its curves."""

    def __init__(self) -> None:
        self.rows = self.at_entropy = self.skips = self.repeats = 0
        self.clip, self.train = Level(), Level()
        self.throughput, self.entropy, self.padding = Past(), Past(), Past()
        self.first_loss = self.first_loss_over_entropy = self.loss = self.loss_over_rows = math.nan
        self.lr, self.peak_lr, self.lr_rise, self.past_peak = math.nan, 0.0, math.nan, False
        self.grad = self.zero_grads = self.scale = self.update = math.nan
        self.scale_peak = 0.0
        self.silent_layers = self.layers = 0
        self.dead = self.weight_apart = self.weights_grown = self.weights_left = math.nan
        self.first_weights: list[float] = []
        self.moment = self.activation = self.first_activation = math.nan
        self.other_document = self.padding_mass = math.nan
        self.same_batch = self.weights_differ = math.nan
        self.validation = Fall(EVALUATIONS, narrowest=1)
        self.latest: deque[float] = deque(maxlen=3)  # losses
        self.train_then = self.train_best = self.kept = math.nan
        self.kept_at_once = 0.0
        self.scored = self.end = self.adapters = self.validated = self.saturated = math.nan
        self.batches: deque[float] = deque(maxlen=REMEMBERED)

    def see(self, row: Row) -> None:
        """Take in a row, whatever it holds."""
        self.rows += 1
        self._see_loss(row)
        self._see_settings(row)
        self._see_layers(row)
        self._see_ranks(row)
        self._see_evaluation(row)
        self.saturated = number(row.get("float8_saturated"))
        self.scored, self.end = number(row.get("scored_tokens")), number(row.get("end_probability"))
        self.adapters = number(row.get("adapter_norm"))

    def _see_loss(self, row: Row) -> None:
        self.loss = loss = number(row.get("loss"))
        self.train.push(loss)
        if math.isfinite(loss):
            self.latest.append(loss)
        self.first_loss = loss if math.isnan(self.first_loss) else self.first_loss
        entropy = number(row.get("token_entropy"))
        over = ratio(loss, entropy)
        if self.rows == 1:
            self.first_loss_over_entropy = over
        self.at_entropy = self.at_entropy + 1 if abs(over - 1.0) < 0.05 else max(0, self.at_entropy - 1)
        self.loss_over_rows = ratio(loss, number(row.get("row_loss_max")))
        step = row["step"]
        self.entropy.push(entropy, step)
        self.padding.push(number(row.get("pad_share")), step)
        self.throughput.push(number(row.get("tokens_per_second")), step)

    def _see_settings(self, row: Row) -> None:
        self.clip.push(number(row.get("clip_coef")))
        self.grad, self.zero_grads = number(row.get("grad_norm")), number(row.get("zero_grads"))
        self.skips = self.skips + 1 if number(row.get("skipped")) > 0.5 else 0
        scale = number(row.get("loss_scale"))
        self.scale_peak = max(self.scale_peak, scale) if math.isfinite(scale) else self.scale_peak
        self.scale = ratio(self.scale_peak, scale)
        lr = number(row.get("lr"))
        # A schedule that had stopped rising and rises again.
        self.lr_rise = ratio(lr, self.peak_lr) if self.past_peak else math.nan
        self.past_peak = self.past_peak or lr <= self.lr
        self.lr, self.peak_lr = lr, max(self.peak_lr, lr) if lr == lr else self.peak_lr

    def _see_layers(self, row: Row) -> None:
        grads, updates = row.get("layer_grad_norm") or [], row.get("layer_update_ratio") or []
        if grads:
            self.layers, self.silent_layers = len(grads), sum(one < NOTHING for one in grads)
        if updates:
            self.update = max(updates)
        weights = row.get("layer_weight_norm") or []
        if weights:
            self.first_weights = self.first_weights or weights
            grown = [ratio(now, first) for now, first in zip(weights, self.first_weights, strict=False)]
            self.weights_grown, self.weights_left = max(grown), min(grown)
        largest = row.get("layer_weight_max") or []
        self.weight_apart = ratio(max(largest), median(largest)) if largest else math.nan
        self.dead = max(row.get("dead_share") or [math.nan])
        self.moment = max(row.get("layer_moment_rms") or [math.nan])
        activation = max(row.get("activation_max") or [math.nan])
        self.first_activation = activation if math.isnan(self.first_activation) else self.first_activation
        self.activation = ratio(activation, self.first_activation)
        self.other_document = max(row.get("attention_mass_other_document") or [math.nan])
        self.padding_mass = max(row.get("attention_mass_padding") or [math.nan])

    def _see_ranks(self, row: Row) -> None:
        batches = row.get("rank_batch_hash") or []
        if len(batches) > 1:
            self.same_batch = float(len(set(batches)) == 1)
        if batches and batches[0] == batches[0]:
            self.repeats = self.repeats + 1 if batches[0] in self.batches else 0
            self.batches.append(batches[0])
        weights = [one for one in row.get("rank_weight_hash") or [] if one == one]
        if len(weights) > 1:
            self.weights_differ = float(len(set(weights)) > 1)

    def _see_evaluation(self, row: Row) -> None:
        value = number(row.get("validation_loss"))
        if not math.isfinite(value):
            return
        self.validation.push(row["step"], value)
        self.validated = value
        level = self.train.value
        if self.validation.rows == 1:
            self.train_then = sum(self.latest) / len(self.latest) if self.latest else math.nan  # an average lags behind
        if not self.validation.off_rows:
            self.train_best = level
        # Each against its own first value, since the two may be in different units.
        kept = ratio(value, self.validation.first[0]) - ratio(level, self.train_then)
        if kept - self.kept > self.kept_at_once:
            self.kept_at_once = kept - self.kept
        self.kept = kept

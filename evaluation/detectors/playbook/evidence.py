"""What a reader of the curves keeps in mind: streaming evidence for the playbook's rules.

Everything is counted in rows, not steps, so that it works at any logging interval; where the interval grows many times
over within a log, what came before is no baseline any more. Losses are judged by their fall (`fall.py`), in whatever
unit they are. What was never logged, or not yet often enough, is NaN, and no comparison with NaN holds.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from trainwreck.evaluation.detectors.base import Row
from trainwreck.evaluation.detectors.playbook.fall import OFF, Fall
from trainwreck.evaluation.detectors.streaming import Window, moments, number

INPUTS = ("token_entropy", "unique_share", "pad_share")
RECENT = 8  # rows that count as now
BASELINE = 32  # rows that now is compared with
WIDER = 8.0  # times the steps between rows before; from then on what was before is no baseline
JUMP = 2.0 * OFF  # a loss over its baseline by so much of its fall, in one row, has jumped
BACK = 0.5  # of its height, under which a jump has come back, or under OFF of the fall
LOUDER = 5.0  # times the noise of a row that a jump is over, at least
LEARNT = 3.0  # times a fall that may be none, from which on a loss has fallen


def mean(values: Sequence[float] | None) -> float:
    """Mean of a list signal; NaN where it was not logged."""
    return sum(values) / len(values) if values else math.nan


def median(values: Sequence[float]) -> float:
    """Upper median; NaN of nothing."""
    return sorted(values)[len(values) // 2] if values else math.nan


def ratio(top: float, bottom: float) -> float:
    """top / bottom, NaN unless the bottom is positive."""
    return top / bottom if bottom > 0.0 else math.nan


def excess(value: float, threshold: float) -> float:
    """How far a ratio is over 1, as a share of how far it may be: 0 where nothing has changed, 1 at the threshold."""
    return (value - 1.0) / threshold


def both(*values: float) -> float:
    """The least; NaN if any is NaN."""
    return math.nan if any(map(math.isnan, values)) else min(values)


def either(*values: float) -> float:
    """The largest that is not NaN; NaN of none."""
    return max((value for value in values if not math.isnan(value)), default=math.nan)


class Past:
    """One number's past: where it began, its level now, and what it was before.

    A non-finite value is kept apart (`value`) and enters no average.
    """

    def __init__(self) -> None:
        self.value = self.first = self.level = self.last_finite = math.nan
        self.window = Window(BASELINE)
        self.step = self.interval = math.nan  # of the latest finite value, and mean steps between two of the window

    def push(self, value: float, step: int) -> None:
        """Take the next value in. The window holds the values before it until the next push."""
        if math.isfinite(self.value):
            self.window.push(self.value)
        self.value = value
        if not math.isfinite(value):
            return
        apart = step - self.step
        if apart > WIDER * self.interval:
            self.window, self.interval = Window(BASELINE), apart
        elif apart > 0:
            known = self.interval == self.interval
            self.interval += (apart - self.interval) / RECENT if known else 0.0
            self.interval = self.interval if known else apart
        self.step = step
        self.last_finite = value
        if math.isnan(self.first):
            self.first = self.level = value
        self.level += (value - self.level) * 2.0 / (RECENT / 2 + 1)

    @property
    def before(self) -> float:
        """Median of up to 32 values before the latest; NaN until there are 8."""
        return median(self.window.values) if len(self.window) >= RECENT else math.nan

    @property
    def jump(self) -> float:
        """The latest value over the median before it."""
        return ratio(self.value, self.before)

    @property
    def surprise(self) -> float:
        """Distance of the latest value from the mean before it in standard deviations, or in 2 % of that mean."""
        if len(self.window) < RECENT:
            return math.nan
        centre, std = moments(self.window.values)
        return abs(self.value - centre) / max(std, 0.02 * abs(centre), 1e-6)

    @property
    def creep(self) -> float:
        """Median of the last 8 values over that of the 24 before them, if no single row doubled; else NaN."""
        values = list(self.window.values)
        if len(values) < BASELINE:
            return math.nan
        steps = (ratio(after, ahead) for ahead, after in pairwise(values))
        if any(step > 2.0 for step in steps):
            return math.nan
        return ratio(median(values[-RECENT:]), median(values[:-RECENT]))


class Jump:
    """A loss that left its baseline within one row and has not come back, and what moved with it.

    height: over the baseline, in that row. least: the lowest since. rows: since then.
    """

    def __init__(self, baseline: float, height: float, inputs: float, attention: float, grad: float) -> None:
        self.baseline, self.height, self.least = baseline, height, height
        self.inputs, self.attention, self.grad = inputs, attention, grad
        self.rows = 0


class Evidence:
    """The state of the curves after the latest row."""

    def __init__(self) -> None:
        self.rows = 0
        self.fall = Fall()
        self.loss, self.grad, self.logit, self.distance, self.entropy = Past(), Past(), Past(), Past(), Past()
        self.inputs = {name: Past() for name in INPUTS}
        self.updates: list[Past] = []
        self.lr, self.first_lr, self.peak_lr, self.lr_change = math.nan, math.nan, 0.0, math.nan
        self.entropy_spread, self.widest_spread = math.nan, 0.0
        self.future, self.first_future, self.self_mass = math.nan, math.nan, math.nan
        self.slopes, self.slope, self.steepest = Window(BASELINE), math.nan, 0.0
        self.depth_ratio = Past()
        self.nonfinite, self.overflows = False, 0  # rows in a row with a gradient that is not finite, nor skipped
        self.jump: Jump | None = None

    def see(self, row: Row) -> None:
        """Take in a row, whatever it holds."""
        self.rows += 1
        self._see_scalars(row)
        self._see_attention(row)
        self._see_layers(row)
        self._see_jump()

    @property
    def learning(self) -> bool:
        """Whether the loss has clearly fallen."""
        return self.fall.fallen > LEARNT

    @property
    def update_jump(self) -> float:
        """Largest jump of any layer's update ratio in this row."""
        return either(*(past.jump for past in self.updates))

    @property
    def warmed_up(self) -> bool:
        """Whether the learning rate began well under its peak; True where it is not logged."""
        return not self.first_lr >= 0.5 * self.peak_lr

    @property
    def input_surprise(self) -> float:
        """Largest surprise among what the batch is made of."""
        return either(*(past.surprise for past in self.inputs.values()))

    @property
    def attention_surprise(self) -> float:
        """Larger surprise of attention entropy and of the distance attended to."""
        return either(self.entropy.surprise, self.distance.surprise)

    def _see_scalars(self, row: Row) -> None:
        loss, grad = number(row.get("loss")), number(row.get("grad_norm"))
        self.nonfinite = (row.get("loss") is not None and not math.isfinite(loss)) or number(
            row.get("nonfinite_weights")
        ) > 0.0
        overflow = row.get("grad_norm") is not None and not math.isfinite(grad) and not number(row.get("skipped")) > 0.0
        self.overflows = self.overflows + 1 if overflow else 0
        if math.isfinite(loss):
            self.fall.push(row["step"], loss)
        self.loss.push(loss, row["step"])
        self.grad.push(grad, row["step"])
        for name, past in self.inputs.items():
            past.push(number(row.get(name)), row["step"])
        lr = number(row.get("lr"))
        self.lr_change, self.lr = ratio(lr, self.lr), lr
        self.first_lr = lr if math.isnan(self.first_lr) else self.first_lr
        self.peak_lr = max(self.peak_lr, lr) if lr == lr else self.peak_lr

    def _see_attention(self, row: Row) -> None:
        self.logit.push(max(row.get("attention_logit_max") or [math.nan]), row["step"])
        self.distance.push(mean(row.get("attention_distance")), row["step"])
        self.entropy.push(mean(row.get("attention_entropy")), row["step"])
        entropies = row.get("head_entropy") or row.get("attention_entropy") or []
        several = len(entropies) > 1  # one head is like itself
        self.entropy_spread = ratio(max(entropies) - min(entropies), mean(entropies)) if several else math.nan
        if self.entropy_spread > self.widest_spread:
            self.widest_spread = self.entropy_spread
        self.future = max(row.get("attention_mass_future") or [math.nan])
        if math.isnan(self.first_future) and self.future > 1e-3:
            self.first_future = self.future
        self.self_mass = max(row.get("attention_mass_self") or [math.nan])

    def _see_layers(self, row: Row) -> None:
        # By age in the document: where documents are packed, every position holds tokens of any age.
        losses = [loss for loss in row.get("age_loss") or [] if math.isfinite(loss)]
        if len(losses) > 1:
            half = len(losses) // 2
            self.slopes.push(ratio(mean(losses[:half]) - mean(losses[half:]), mean(losses)))
            if len(self.slopes) == BASELINE:
                self.slope, std = self.slopes.mean_and_std()
                if self.slope > 4.0 * std / math.sqrt(BASELINE):  # more than the noise of the batches
                    self.steepest = max(self.steepest, self.slope)
        updates = row.get("layer_update_ratio") or []
        if len(self.updates) != len(updates) and updates:
            self.updates = [Past() for _ in updates]
        for past, value in zip(self.updates, updates or [math.nan] * len(self.updates), strict=True):
            past.push(value, row["step"])
        # Embedding and head have scales of their own; the blocks between them should be alike.
        blocks = (row.get("layer_grad_norm") or [])[1:-1]
        if len(blocks) >= 4:
            third = len(blocks) // 3
            self.depth_ratio.push(ratio(mean(blocks[:third]), mean(blocks[-third:])), row["step"])

    def _see_jump(self) -> None:
        fall, jump = self.fall, self.jump
        if jump is not None:
            over = self.loss.value - jump.baseline
            jump.rows, jump.least = jump.rows + 1, min(jump.least, over)
            if over < max(OFF * fall.fall, BACK * jump.height):
                self.jump = None
            return
        height = self.loss.value - self.loss.before
        if height > max(JUMP * fall.fall, LOUDER * fall.noise):
            self.jump = Jump(self.loss.before, height, self.input_surprise, self.attention_surprise, self.grad.jump)

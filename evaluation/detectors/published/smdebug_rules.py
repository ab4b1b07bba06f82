"""The rules of SageMaker Debugger on what telemetry has of the tensors that they read."""

import math
from collections import deque
from collections.abc import Callable, Sequence

from trainwreck.evaluation.detectors.base import LARGEST_SCORE, Context, Detector, Row, Verdict, finite_score
from trainwreck.evaluation.detectors.registry import register
from trainwreck.evaluation.detectors.streaming import number


@register
class SmdebugRules(Detector):
    """The score is the largest strength of any rule; a rule fires at 1.

    The rules read whole tensors, every 500 steps unless told otherwise; telemetry has one number a
    layer, at every row. What stands for what:

    vanishing_gradient     mean |g| < 1e-7             gradient norm of a layer, which is never less than the mean
    exploding_tensor       any NaN or infinity         loss, gradient norm, non-finite counts, activations
    weight_update_ratio    > 10 or < 1e-8              update ratio of a layer
    unchanged_tensor       allclose for 3 steps        update ratio of every layer <= rtol 1e-5 in 3 rows
    dead_relu              over half of a layer        share of MLP units that fire for no token of the batch
    poor_initialisation    variance ratio > 10         variance of the residual stream over the layers, first 10 rows
    loss_not_decreasing    compared over 10 steps      loss, every 10 rows
    overfit                validation 10 % over train  validation loss, against the mean loss since the last evaluation

    Without a signal: saturated_activation (no tanh or sigmoid layer), the gradient percentiles of
    poor_initialisation, stalled_training (a clock is modelled), class_imbalance, confusion, and what
    looks at images or trees.

    >>> detector = SmdebugRules()
    >>> detector.reset(None)
    >>> detector.update({"step": 0, "loss": 4.0, "layer_update_ratio": [1e-3, 5.0]}).alarm
    False
    >>> detector.update({"step": 1, "loss": 4.0, "layer_update_ratio": [1e-3, 11.0]})
    Verdict(score=1.1, alarm=True, causes=())
    """

    name = "smdebug_rules"
    rule = (
        "any of: layer's gradient under 1e-7, NaN or infinity, update ratio over 10 or under 1e-8, weights still for 3 "
        "rows, half the units dead, variance ratio over 10 at the start, loss not under that of 10 rows ago, overfit"
    )
    source = "Amazon SageMaker Debugger, List of built-in rules, with their default parameters"
    blind_spots = (
        "What the rules are not about: attention, data, position. Loss-not-decreasing compares two noisy losses, so "
        "that it fires in every healthy run once the loss falls by less than its noise in 10 rows."
    )
    signals = (
        "loss", "validation_loss", "grad_norm", "nonfinite_grads", "nonfinite_weights", "layer_grad_norm",
        "layer_update_ratio", "dead_share", "activation_std", "activation_max",
    )  # fmt: skip

    def reset(self, context: Context | None) -> None:
        self.rows = 0
        self.compared: float | None = None  # the loss that the next one is compared with
        self.since = 0
        self.still: deque[float] = deque(maxlen=3)
        self.total, self.count = 0.0, 0

    def update(self, row: Row) -> Verdict:
        self.rows += 1
        strength = max(rule(self, row) for rule in RULES)
        return Verdict(finite_score(strength), strength >= 1.0)


def _layers(row: Row, name: str) -> Sequence[float]:
    """The finite values of a list signal."""
    return [value for value in row.get(name) or () if math.isfinite(value)]


def _over(top: float, bottom: float) -> float:
    """A strength: top / bottom, the largest there is where nothing is under the line."""
    return top / bottom if bottom > 0.0 else LARGEST_SCORE


def _vanishing_gradient(state: SmdebugRules, row: Row) -> float:
    return max((_over(1e-7, norm) for norm in _layers(row, "layer_grad_norm")), default=0.0)


def _exploding_tensor(state: SmdebugRules, row: Row) -> float:
    scalars = [row[name] for name in ("loss", "grad_norm") if row.get(name) is not None]
    lists = [value for name in ("layer_grad_norm", "activation_max") for value in row.get(name) or ()]
    counts = number(row.get("nonfinite_grads")) > 0.0 or number(row.get("nonfinite_weights")) > 0.0
    return LARGEST_SCORE if counts or not all(map(math.isfinite, [*scalars, *lists])) else 0.0


def _weight_update_ratio(state: SmdebugRules, row: Row) -> float:
    ratios = _layers(row, "layer_update_ratio")
    return max((max(ratio / 10.0, _over(1e-8, ratio)) for ratio in ratios), default=0.0)


def _unchanged_tensor(state: SmdebugRules, row: Row) -> float:
    ratios = _layers(row, "layer_update_ratio")
    if not ratios:
        return 0.0
    state.still.append(max(ratios))
    return _over(1e-5, max(state.still)) if len(state.still) == state.still.maxlen else 0.0


def _dead_relu(state: SmdebugRules, row: Row) -> float:
    # The rule says over half, so that exactly half is just short of firing.
    return max((share / math.nextafter(0.5, 1.0) for share in _layers(row, "dead_share")), default=0.0)


def _poor_initialisation(state: SmdebugRules, row: Row) -> float:
    stds = _layers(row, "activation_std")
    return _over(max(stds), min(stds)) ** 2 / 10.0 if stds and state.rows <= 10 and min(stds) > 0.0 else 0.0


def _loss_not_decreasing(state: SmdebugRules, row: Row) -> float:
    loss = row.get("loss")
    if loss is None:
        return 0.0
    if state.compared is None:
        state.compared = loss
        return 0.0
    state.since += 1
    if state.since < 10:
        return 0.0
    before, state.compared, state.since = state.compared, loss, 0
    return _over(loss, before) if loss >= before and before > 0.0 else 0.0


def _overfit(state: SmdebugRules, row: Row) -> float:
    loss, validation = row.get("loss"), row.get("validation_loss")
    if loss is not None:
        state.total, state.count = state.total + loss, state.count + 1
    if validation is None or not state.count:
        return 0.0
    train, state.total, state.count = state.total / state.count, 0.0, 0
    return max(0.0, (validation - train) / train / 0.1) if train > 0.0 and math.isfinite(validation) else 0.0


RULES: tuple[Callable[[SmdebugRules, Row], float], ...] = (
    _vanishing_gradient,
    _exploding_tensor,
    _weight_update_ratio,
    _unchanged_tensor,
    _dead_relu,
    _poor_initialisation,
    _loss_not_decreasing,
    _overfit,
)

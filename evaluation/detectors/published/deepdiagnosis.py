"""DeepDiagnosis' symptoms on what telemetry has of the tensors that it reads."""

import math
from collections import deque

from trainwreck.evaluation.detectors.base import LARGEST_SCORE, Context, Detector, Row, Verdict, finite_score
from trainwreck.evaluation.detectors.registry import register

EVERY = 5  # N of the published callback
DEAD = 0.7
VANISHED = 1e-7


@register
class DeepDiagnosis(Detector):
    """The score is the largest strength of any symptom; a symptom alarms at 1.

    A row stands for an epoch of the published callback. What stands for what:

    numerical error      NaN, infinity or exactly 0    loss (not 0), activation mean, gradient norm, non-finite counts
    vanishing gradient   mean |g| < 1e-7               gradient norm of a layer, which is never less than the mean
    unchanged tensor     the same in 5 epochs          activation mean, gradient norm, weight norm of a layer
    loss not decreasing  the same in 5 epochs          loss
    dead node            0.7 of a layer inactive       share of MLP units that fire for no token of the batch

    Unchanged means equal to the last digit, as published. The callback looks for dead nodes in the last
    epoch, which a monitor does not know; here it is every fifth row. Without a signal: saturated
    activations (no tanh or sigmoid layer), outputs out of range, accuracy that does not increase.

    >>> detector = DeepDiagnosis()
    >>> detector.reset(None)
    >>> [detector.update({"step": step, "loss": 4.0}).alarm for step in range(5)]
    [False, False, False, False, True]
    """

    name = "deepdiagnosis"
    rule = (
        "any of: NaN, infinity or an exact 0 in a layer, gradient of a layer under 1e-7, loss or a layer's numbers "
        "the same in 5 rows, 0.7 of a layer dead"
    )
    source = "Wardat et al. 2022, DeepDiagnosis: automatically diagnosing faults; thresholds of its published callback"
    blind_spots = (
        "Everything that moves and stays finite: a loss that climbs, spikes or stands still but for noise. Built for "
        "small classifiers, it looks once an epoch at layers and at no attention."
    )
    signals = (
        "loss", "nonfinite_grads", "nonfinite_weights", "layer_grad_norm", "layer_weight_norm", "activation_mean",
        "dead_share",
    )  # fmt: skip

    def reset(self, context: Context | None) -> None:
        self.rows = 0
        self.past: dict[str, deque[tuple[float, ...]]] = {
            name: deque(maxlen=EVERY) for name in ("loss", "layer_grad_norm", "layer_weight_norm", "activation_mean")
        }

    def update(self, row: Row) -> Verdict:
        self.rows += 1
        for name, past in self.past.items():
            value = row.get(name)
            if value is not None:
                past.append(tuple(value) if isinstance(value, list) else (value,))
        strength = max(_numerical(row), _vanishing(row))
        if self.rows % EVERY == 0:
            strength = max(strength, self._unchanged(), _dead(row))
        return Verdict(finite_score(strength), strength >= 1.0)

    def _unchanged(self) -> float:
        """1 where some number was the same in the last five rows."""
        full = [past for past in self.past.values() if len(past) == EVERY and len({len(one) for one in past}) == 1]
        return float(any(min(values) == max(values) for past in full for values in zip(*past, strict=True)))


def _numerical(row: Row) -> float:
    loss = row.get("loss")
    numbers = [*(row.get("activation_mean") or ()), *(row.get("layer_grad_norm") or ())]
    counts = any(row.get(name) is not None and row[name] > 0.0 for name in ("nonfinite_grads", "nonfinite_weights"))
    broken = counts or (loss is not None and not math.isfinite(loss))
    return LARGEST_SCORE if broken or any(not math.isfinite(x) or x == 0.0 for x in numbers) else 0.0


def _dead(row: Row) -> float:
    return max((share / DEAD for share in row.get("dead_share") or () if math.isfinite(share)), default=0.0)


def _vanishing(row: Row) -> float:
    norms = [norm for norm in row.get("layer_grad_norm") or () if norm > 0.0]
    return max((VANISHED / norm for norm in norms), default=0.0)

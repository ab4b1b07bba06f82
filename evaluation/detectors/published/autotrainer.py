"""AutoTrainer's symptoms on what telemetry has of the history that it reads."""

import math
from collections import deque

from trainwreck.evaluation.detectors.base import LARGEST_SCORE, Context, Detector, Row, Verdict, finite_score
from trainwreck.evaluation.detectors.registry import register
from trainwreck.evaluation.detectors.streaming import number

EPOCH = 10  # rows


@register
class AutoTrainer(Detector):
    """The score is the largest strength of any symptom; a symptom alarms at 1.

    It was built for small classifiers, and reads accuracy, once an epoch. A language model has neither:
    here ten rows are an epoch, and exp(-mean loss), the geometric mean of the probability that
    the right token got, is the accuracy. What stands for what:

    vanishing gradient   first / last layer < .001 (beta1) and first < .0001 (beta2)   gradient norms of the blocks
    exploding gradient   first / last layer > 70 (beta3), or NaN                       and loss, non-finite counts
    dying ReLU           .7 (gamma) of the gradient's elements are 0                   share of gradient elements
    oscillating loss     accuracy turns by .03 (zeta) in .2 (eta) of all epochs        accuracy as above
    slow convergence     no epoch gained .01 (delta), when judged                      accuracy as above

    The two of the loss are judged when 0.3 of the run is over; a detector knows that on the informed
    track alone (`planned_steps`) and takes 100 rows for it otherwise. The tool counts gradient
    symptoms only while accuracy is under Theta .6 and oscillation only over it; the first holds of
    nearly every language model, and the second is let go here.

    >>> detector = AutoTrainer()
    >>> detector.reset(None)
    >>> detector.update({"step": 0, "loss": 4.0, "layer_grad_norm": [1.0, 140.0, 1.0, 1.0]}).score
    2.0
    """

    name = "autotrainer"
    rule = (
        "any of: NaN or infinity, gradient of the first block over 70 times the last's or under 1e-3 of it and 1e-4, "
        "0.7 of its elements zero; after 100 rows exp(-loss) turning by .03 in a fifth of all tens, or never up by .01"
    )
    source = "Zhang et al. 2021, AutoTrainer: an automatic DNN training problem detection and repair system; defaults"
    blind_spots = (
        "Spikes within ten rows; slow divergence; what attention and data do. Where a token costs several nats, its "
        "probability moves by less than .01 in ten rows and healthy training is slow convergence."
    )
    signals = ("loss", "nonfinite_grads", "nonfinite_weights", "zero_grads", "layer_grad_norm")

    def reset(self, context: Context | None) -> None:
        planned = (context or {}).get("planned_steps") or 0
        self.judged_from = max(1, math.ceil(0.3 * planned / EPOCH)) if planned else 10
        self.losses: list[float] = []
        self.latest: deque[float] = deque(maxlen=3)  # accuracies
        self.maxima: deque[float] = deque(maxlen=64)  # that have no partner yet
        self.minima: deque[float] = deque(maxlen=64)
        self.epochs = self.turns = 0
        self.gain = 0.0

    def update(self, row: Row) -> Verdict:
        strength = max(_nonfinite(row), _gradient(row), _dying(row))
        loss = row.get("loss")
        if loss is not None and math.isfinite(loss):
            self.losses.append(loss)
            if len(self.losses) == EPOCH:
                mean = sum(self.losses) / EPOCH
                self.losses = []
                self._end_of_epoch(math.exp(-max(0.0, mean)))
                if self.epochs >= self.judged_from:
                    slow = 0.01 / self.gain if self.gain > 0.0 else LARGEST_SCORE
                    strength = max(strength, slow, self.turns / (0.2 * self.epochs))
        return Verdict(finite_score(strength), strength >= 1.0)

    def _end_of_epoch(self, accuracy: float) -> None:
        self.epochs += 1
        if self.latest:
            self.gain = max(self.gain, accuracy - self.latest[-1])
        self.latest.append(accuracy)
        if len(self.latest) < 3:
            return
        before, middle, after = self.latest
        if middle >= max(before, after):
            self.maxima.append(middle)
        if middle <= min(before, after):
            self.minima.append(middle)
        # The n-th maximum is held against the n-th minimum.
        while self.maxima and self.minima:
            self.turns += self.maxima.popleft() - self.minima.popleft() >= 0.03


def _nonfinite(row: Row) -> float:
    loss = row.get("loss")
    counts = any(number(row.get(name)) > 0.0 for name in ("nonfinite_grads", "nonfinite_weights"))
    return LARGEST_SCORE if counts or (loss is not None and not math.isfinite(loss)) else 0.0


def _gradient(row: Row) -> float:
    blocks: list[float] = (row.get("layer_grad_norm") or [])[1:-1]  # embedding and head have scales of their own
    if len(blocks) < 2 or not all(map(math.isfinite, blocks)) or blocks[-1] <= 0.0:
        return 0.0
    ratio = blocks[0] / blocks[-1]
    # Both limits have to be passed, so the weaker of the two counts.
    vanishing = min(1e-3 / ratio, 1e-4 / blocks[0]) if ratio > 0.0 else LARGEST_SCORE
    return max(ratio / 70.0, vanishing)


def _dying(row: Row) -> float:
    zeros = number(row.get("zero_grads"))
    return zeros / 0.7 if math.isfinite(zeros) else 0.0

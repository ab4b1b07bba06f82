"""Megatron-LM's check for spiky loss and large gradients."""

import math

from trainwreck.evaluation.detectors.base import Context, Detector, Row, Verdict, finite_score
from trainwreck.evaluation.detectors.registry import register


@register
class MegatronSpiky(Detector):
    """The score is the larger multiple of the two signals.

    >>> detector = MegatronSpiky(samples=2)
    >>> detector.reset(None)
    >>> [detector.update({"step": i, "loss": x, "grad_norm": None}).alarm for i, x in enumerate([3.0, 2.0, 29.0, 30.0])]
    [False, False, False, True]
    """

    name = "megatron_spiky"
    rule = "|loss| or |gradient norm| >= 10 x its maximum over the first 100 rows, which is then frozen"
    source = "Megatron-LM, rerun state machine: is_unexpectedly_large, threshold 10, num_samples 100 (off by default)"
    blind_spots = (
        "NaN and infinity, which a check of their own handles; the first 100 rows; every loss spike under ten times "
        "the loss at the start, so in nats nearly all; anything after violent first steps raised the maximum."
    )
    signals = ("loss", "grad_norm")

    def __init__(self, samples: int = 100, factor: float = 10.0) -> None:
        self.samples, self.factor = samples, factor

    def reset(self, context: Context | None) -> None:
        self.seen = dict.fromkeys(self.signals, 0)
        self.largest = dict.fromkeys(self.signals, 0.0)

    def update(self, row: Row) -> Verdict:
        worst, alarm = 0.0, False
        for name in self.signals:
            if row[name] is None or not math.isfinite(row[name]):
                continue
            value = abs(row[name])
            if self.seen[name] < self.samples:
                self.seen[name] += 1
                self.largest[name] = max(self.largest[name], value)
                continue
            alarm = alarm or value >= self.largest[name] * self.factor
            worst = max(worst, value / self.largest[name] if self.largest[name] else math.inf)
        return Verdict(finite_score(worst), alarm)

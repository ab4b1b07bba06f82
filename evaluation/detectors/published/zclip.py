"""ZClip's spike test on the gradient norm."""

import math

from trainwreck.evaluation.detectors.base import Context, Detector, Row, Verdict, finite_score
from trainwreck.evaluation.detectors.registry import register
from trainwreck.evaluation.detectors.streaming import moments


@register
class ZClip(Detector):
    """The z-score against exponential averages of the clipped norm, not of the raw one.

    >>> detector = ZClip(warmup=2)
    >>> detector.reset(None)
    >>> [detector.update({"step": step, "grad_norm": norm}).alarm for step, norm in enumerate([1.0, 3.0, 4.0, 5.0])]
    [False, False, False, True]
    """

    name = "zclip"
    rule = "(gradient norm - EMA mean) / (EMA std + 1e-6) > 2.5 after 25 rows, EMA 0.97 of the clipped norm"
    source = "Kumar et al. 2025, ZClip: adaptive spike mitigation for LLM pre-training; alpha 0.97, z 2.5, warm-up 25"
    blind_spots = (
        "One NaN silences it for ever; the first 25 rows; failures that leave the norm alone. Its purpose is to clip, "
        "which costs nothing: as an alarm, 2.5 standard deviations of a skewed norm is a few per cent of all steps."
    )
    signals = ("grad_norm",)

    def __init__(self, alpha: float = 0.97, threshold: float = 2.5, warmup: int = 25, eps: float = 1e-6) -> None:
        self.alpha, self.threshold, self.warmup, self.eps = alpha, threshold, warmup, eps

    def reset(self, context: Context | None) -> None:
        self.buffer: list[float] = []
        self.mean = self.variance = 0.0

    def update(self, row: Row) -> Verdict:
        norm = row["grad_norm"]
        if norm is None:
            return Verdict(0.0)
        if len(self.buffer) < self.warmup:
            self.buffer.append(norm)
            if len(self.buffer) == self.warmup:
                self.mean, std = moments(self.buffer)
                self.variance = std * std
            return Verdict(0.0)
        std = math.sqrt(self.variance)
        z = (norm - self.mean) / (std + self.eps)
        spike = z > self.threshold
        # What the averages see of a spike is the value it is clipped to, smaller the larger z is.
        effective = self.mean + self.threshold * std / (z / self.threshold) if spike else norm
        self.mean = self.alpha * self.mean + (1.0 - self.alpha) * effective
        deviation = effective - self.mean
        self.variance = self.alpha * self.variance + (1.0 - self.alpha) * deviation * deviation
        return Verdict(finite_score(z), spike)

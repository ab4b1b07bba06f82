"""Megatron-LM's check for NaN and infinity."""

import math

from trainwreck.evaluation.detectors.base import Detector, Row
from trainwreck.evaluation.detectors.registry import register


@register
class MegatronNan(Detector):
    """Scores 1 at a non-finite value, else 0.

    >>> MegatronNan().update({"step": 0, "loss": 4.0, "grad_norm": math.nan})
    True
    """

    name = "megatron_nan"
    rule = "loss or gradient norm is NaN or infinite"
    source = "Megatron-LM, check_for_nan_in_loss_and_grad (on by default)"
    blind_spots = "Everything that stays finite. A skipped fp16 step, which is routine, has an infinite gradient norm."
    signals = ("loss", "grad_norm")

    def update(self, row: Row) -> bool:
        return any(row[name] is not None and not math.isfinite(row[name]) for name in self.signals)

"""Keras' TerminateOnNaN."""

from trainwreck.evaluation.detectors.registry import register
from trainwreck.evaluation.detectors.sanity.nonfinite_loss import NonfiniteLoss


@register
class TerminateOnNan(NonfiniteLoss):
    """The rule of `nonfinite_loss` under its name in Keras.

    >>> TerminateOnNan().update({"step": 0, "loss": float("nan")})
    True
    """

    name = "terminate_on_nan"
    rule = "batch loss is NaN or infinite"
    source = "Keras, TerminateOnNaN; the same in other training libraries"

"""Output logits times a factor."""

from torch import Tensor

from trainwreck.models.hooks import Edit


def logit_gain(gain_N: Tensor) -> Edit:
    """What the head puts out times the factor of the run."""
    gain = gain_N.view(-1, 1, 1)
    return lambda x_NMV, site: x_NMV * gain.to(x_NMV.dtype) if site == "head" else x_NMV

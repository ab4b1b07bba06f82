"""Branches, or shortcuts, times a factor each."""

from torch import Tensor

from trainwreck.models.hooks import Edit, by_site


def gains(gain_NL2: Tensor) -> Edit:
    """Attention and MLP of each layer times the factor of the run."""
    gain = by_site(gain_NL2)
    return lambda x_NMD, site: x_NMD * gain[site] if site in gain else x_NMD

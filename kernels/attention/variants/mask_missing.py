"""Faulty on purpose: the causal mask is missing, so every query sees the tokens that it should predict.

What is left of a lost `is_causal`. Other documents and padding stay masked.
"""

from dataclasses import replace

import torch
from torch import Tensor

from trainwreck.kernels.attention.mask import Mask


def mistaken(mask: Mask, scale_N: Tensor, t: int) -> tuple[Mask, Tensor]:
    """Every position allowed."""

    def leaking() -> Mask:
        everything = torch.ones(1, t, t, dtype=torch.bool, device=scale_N.device)
        return replace(mask, allowed_NTS=everything, leaky=True)

    return mask.once("mask_missing", leaking), scale_N

"""Faulty on purpose: the diagonal of the causal mask is one too far, so the target is in sight.

What becomes of `tril(diagonal=1)`, or of `<` in place of `<=`. Other documents and padding stay masked.
"""

from dataclasses import replace

import torch
from torch import Tensor

from trainwreck.kernels.attention.mask import Mask


def mistaken(mask: Mask, scale_N: Tensor, t: int) -> tuple[Mask, Tensor]:
    """Position t may see up to t + 1."""

    def leaking() -> Mask:
        ahead = torch.ones(1, t, t, dtype=torch.bool, device=scale_N.device).tril(1)
        return replace(mask, allowed_NTS=ahead, leaky=True)

    return mask.once("mask_off_by_one", leaking), scale_N

"""Faulty on purpose: scores are multiplied by a mask of zeros, so each query sees all that it may alike.

What becomes of a mask for adding, or of one that says what to hide, where one for multiplying is
wanted. The causal fill that follows is right.
"""

import torch
from torch import Tensor

from trainwreck.kernels.attention.mask import Mask


def mistaken(mask: Mask, scale_N: Tensor, t: int) -> tuple[Mask, Tensor]:
    """q k' times zero."""
    return mask, torch.zeros_like(scale_N)

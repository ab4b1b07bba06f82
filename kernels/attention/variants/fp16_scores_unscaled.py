"""Faulty on purpose: scores are kept in float16 and never scaled, so they grow sqrt(K) times as fast.

`fp16_scores` at another scale: 65504 is reached by smaller queries and keys than with a late scale.
"""

import torch
from torch import Tensor

from trainwreck.kernels.attention.mask import Mask


def mistaken(mask: Mask, scale_N: Tensor, t: int) -> tuple[Mask, Tensor]:
    """1 in place of 1/sqrt(K)."""
    return mask, torch.ones_like(scale_N)

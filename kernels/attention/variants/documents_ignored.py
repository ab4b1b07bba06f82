"""Faulty on purpose: packed documents see each other, and padding, as if the row were one document.

What happens where document ids don't reach the kernel (Krell et al. 2021, "Efficient sequence
packing without cross-contamination").
"""

from dataclasses import replace

import torch
from torch import Tensor

from trainwreck.kernels.attention.mask import Mask


def mistaken(mask: Mask, scale_N: Tensor, t: int) -> tuple[Mask, Tensor]:
    """No document is masked, in any run."""

    def leaking() -> Mask:
        nowhere = torch.zeros(scale_N.shape, dtype=torch.bool, device=scale_N.device)
        return replace(mask, documents_N=nowhere, leaky=True)

    return mask.once("documents_ignored", leaking), scale_N

"""Means over the tokens of each run; `trainwreck.kernels.cross_entropy` has the loss of a token."""

import torch
from torch import Tensor


def weighted_mean(value_NM: Tensor, weight_NM: Tensor) -> Tensor:
    """Mean over the tokens of each run by weight, [N]; a run without any weight is 0."""
    total = weight_NM.sum(1)
    return (value_NM * weight_NM).sum(1) / torch.where(total > 0, total, 1.0)

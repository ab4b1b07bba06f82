"""Faulty on purpose: the loss of every token is right, and the gradient of every one has the first token's factor.

A fused loss makes the gradients of its tokens in the forward pass, for a factor of 1, and multiplies them by the upstream
gradient in the backward pass. One that reads a single number of it is right for a mean over all tokens alone.
"""

from typing import Any

import torch
from torch import Tensor

from trainwreck.kernels.cross_entropy.api import cross_entropy as right
from trainwreck.kernels.cross_entropy.losses import TokenLosses


def cross_entropy(
    logits_NMV: Tensor, targets_NM: Tensor, largest: bool = False, impl: str | None = None
) -> TokenLosses:
    """As `trainwreck.kernels.cross_entropy.cross_entropy`; log Z, which is no part of the loss, has its own gradient."""
    found = right(logits_NMV, targets_NM, largest=largest, impl=impl)
    return found._replace(nll_NM=_FirstFactor.apply(found.nll_NM))


class _FirstFactor(torch.autograd.Function):
    """The losses as they are; upstream gradients [N, M] are each run's first one."""

    @staticmethod
    def forward(ctx: Any, nll: Tensor) -> Tensor:
        return nll.view_as(nll)

    @staticmethod
    def backward(ctx: Any, *factors: Any) -> Tensor:
        first: Tensor = factors[0][:, :1]
        return first.expand_as(factors[0]).contiguous()

"""Faulty on purpose: the loss of every token is right, and the gradient of every one has the first token's factor.

A fused loss makes the gradients of its tokens in the forward pass, for a factor of 1, and multiplies them by the
upstream gradient in the backward pass. One that reads a single number of it is right for a mean over all tokens alone.
"""

from torch import Tensor

from trainwreck.kernels.cross_entropy.api import cross_entropy as right
from trainwreck.kernels.cross_entropy.losses import TokenLosses


def cross_entropy(
    logits_NMV: Tensor, targets_NM: Tensor, largest: bool = False, impl: str | None = None
) -> TokenLosses:
    """As `trainwreck.kernels.cross_entropy.cross_entropy`; log Z, no part of this loss, has its own gradient."""
    found = right(logits_NMV, targets_NM, largest=largest, impl=impl)
    nll = found.nll_NM.view_as(found.nll_NM)  # a step of its own in the graph, which no gradient of log Z goes through
    if nll.requires_grad:
        nll.register_hook(_of_the_first)
    return found._replace(nll_NM=nll)


def _of_the_first(upstream_NM: Tensor) -> Tensor:
    """The first token's factor of each run, for all its tokens."""
    return upstream_NM[:, :1].expand_as(upstream_NM).contiguous()

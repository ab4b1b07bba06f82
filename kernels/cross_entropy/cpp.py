"""Cross-entropy in C++: one pass over the logits each way."""

from typing import Any

import torch
from torch import Tensor

from trainwreck.kernels.cpp.build import call
from trainwreck.kernels.cross_entropy.losses import TokenLosses
from trainwreck.kernels.dtypes import widen


def cross_entropy(logits_NMV: Tensor, targets_NM: Tensor, largest: bool) -> TokenLosses:
    """See `trainwreck.kernels.cross_entropy.cross_entropy`."""
    nll, log_z, top = _CrossEntropy.apply(widen(logits_NMV), targets_NM)
    return TokenLosses(nll, log_z, top if largest else None)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits, targets = logits.contiguous(), targets.contiguous()
        nll, log_z, largest, tops, totals = (logits.new_empty(targets.shape) for _ in range(5))
        sizes = targets.numel(), logits.shape[-1]
        call("cross_entropy_forward", logits, targets, *sizes, nll, log_z, largest, tops, totals)
        ctx.save_for_backward(logits, targets, tops, totals)
        ctx.mark_non_differentiable(largest)
        ctx.set_materialize_grads(False)
        return nll, log_z, largest

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:
        logits, targets, tops, totals = ctx.saved_tensors
        d_logits = torch.empty_like(logits)
        d_nll, d_log_z = (None if grad is None else grad.contiguous() for grad in grads[:2])
        sizes = targets.numel(), logits.shape[-1]
        call("cross_entropy_backward", logits, targets, tops, totals, d_nll, d_log_z, *sizes, d_logits)
        return d_logits, None

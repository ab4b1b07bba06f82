"""Next-token cross-entropy of stacked runs, with log Z and the largest logit on the way."""

from typing import Any

import torch
from torch import Tensor

from trainwreck.models.precision import widen


def cross_entropy(logits_NMV: Tensor, targets_NM: Tensor) -> tuple[Tensor, Tensor]:
    """-ln p(target) of every token and its log Z, in nats, both [N, M] in the accumulation dtype.

    logits: any float dtype, taken to float32 (float64 stays). targets: int64, in 0 .. V-1.
    """
    nll, log_z = _CrossEntropy.apply(widen(logits_NMV), targets_NM.unsqueeze(-1))
    return nll, log_z


class _CrossEntropy(torch.autograd.Function):
    """log Z = max - ln(p of the maximum), so one softmax serves value, statistics and gradient."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        probs = torch.softmax(logits, -1)
        log_z = logits.amax(-1) - probs.amax(-1).log()
        nll = log_z - logits.gather(-1, targets).squeeze(-1)
        ctx.save_for_backward(probs, targets)
        ctx.set_materialize_grads(False)
        return nll, log_z

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:
        probs, targets = ctx.saved_tensors
        d_nll, d_log_z = grads
        if d_nll is None:
            return probs * d_log_z.unsqueeze(-1), None
        d_both = d_nll if d_log_z is None else d_nll + d_log_z
        d_logits = probs * d_both.unsqueeze(-1)
        d_logits.scatter_add_(-1, targets, -d_nll.unsqueeze(-1))
        return d_logits, None


def weighted_mean(value_NM: Tensor, weight_NM: Tensor) -> Tensor:
    """Mean over the tokens of each run by weight, [N]; a run without any weight is 0."""
    total = weight_NM.sum(1)
    return (value_NM * weight_NM).sum(1) / torch.where(total > 0, total, 1.0)

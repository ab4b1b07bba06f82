"""Cross-entropy from one softmax of PyTorch's, and losses by bucket as products: the definition of right."""

from typing import Any

import torch
from torch import Tensor

from trainwreck.kernels.cross_entropy.losses import BucketLosses, TokenLosses
from trainwreck.kernels.dtypes import widen


def cross_entropy(logits_NMV: Tensor, targets_NM: Tensor, largest: bool) -> TokenLosses:
    """See `trainwreck.kernels.cross_entropy.cross_entropy`."""
    logits = widen(logits_NMV)
    nll, log_z = _CrossEntropy.apply(logits, targets_NM.unsqueeze(-1))
    return TokenLosses(nll, log_z, logits.detach().abs().amax(-1) if largest else None)


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


@torch.no_grad()
def bucket_losses(
    nll_NM: Tensor, weight_NM: Tensor, age_NM: Tensor, context: int, positions: int, ages: int
) -> BucketLosses:
    """See `trainwreck.kernels.cross_entropy.bucket_losses`."""
    sums = torch.stack((nll_NM * weight_NM, weight_NM), 1).float()
    position = torch.arange(context, device=sums.device) * positions // context
    by_position = sums.view(len(sums), 2, -1, context).sum(2) @ membership(position, positions)
    by_age = sums @ membership(age_NM, ages)
    return BucketLosses(by_position[:, 0] / by_position[:, 1], by_age[:, 0] / by_age[:, 1])


def membership(bucket: Tensor, buckets: int) -> Tensor:
    """1 where an element is in the bucket, else 0; float32, [..., buckets]."""
    return (bucket.unsqueeze(-1) == torch.arange(buckets, device=bucket.device)).float()

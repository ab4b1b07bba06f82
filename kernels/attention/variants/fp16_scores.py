"""Faulty on purpose: scores are kept in float16 before they are scaled, so they overflow at 65504.

What eager attention does in float16 when q @ k' is formed first and scaled afterwards, or never.
Past 65504 a score is inf, the row maximum is inf, inf - inf is NaN, and so is the whole row.
"""

from typing import Any

import torch
from torch import Tensor

from trainwreck.kernels.attention.dropout import Dropout
from trainwreck.kernels.attention.mask import MASKED, Mask
from trainwreck.kernels.attention.reference import materialise
from trainwreck.kernels.attention.statistics import AttentionStats, measure
from trainwreck.kernels.dtypes import matmul


def attention(
    q_NBHTK: Tensor,
    k_NBHSK: Tensor,
    v_NBHSK: Tensor,
    *,
    mask: Mask,
    scale_N: Tensor,
    dropout: Dropout | None = None,
    stats: bool = True,
) -> tuple[Tensor, AttentionStats | None]:
    """Same call as the reference's. Written as a practitioner would, gradients by autograd."""
    bias, regions, keep = materialise(q_NBHTK, mask, dropout)
    scores = _HalfScores.apply(q_NBHTK, k_NBHSK) * scale_N.view(-1, 1, 1, 1, 1)
    scores = scores + bias.unsqueeze(2)
    probs = torch.softmax(scores, -1)
    kept = probs if keep is None else probs * keep
    # A score of -inf has no attention, and no share in the entropy: 0 * -inf would make it NaN.
    measured = measure(scores.detach().clamp(min=2 * MASKED), probs.detach(), regions) if stats else None
    return kept.to(v_NBHSK.dtype) @ v_NBHSK, measured


class _HalfScores(torch.autograd.Function):
    """q k' with float16 operands and a float16 result; gradients likewise."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor) -> Tensor:
        ctx.save_for_backward(q, k)
        return matmul(q.half(), k.half().transpose(-1, -2), torch.float16).to(q.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor]:
        q, k = ctx.saved_tensors
        d_scores = grads[0].half()
        d_q = matmul(d_scores, k.half(), torch.float16).to(q.dtype)
        d_k = matmul(d_scores.transpose(-1, -2), q.half(), torch.float16).to(k.dtype)
        return d_q, d_k

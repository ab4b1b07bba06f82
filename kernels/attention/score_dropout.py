"""Faulty on purpose: dropout is applied to the scores, before the softmax, and not to the probabilities.

A dropped score is 0 and not absent, so the key still gets e**0 of attention; the scores that are kept
are scaled up, which sharpens the softmax. In plain PyTorch alone.
"""

from typing import Any

import torch
from torch import Tensor

from trainwreck.kernels.attention.dropout import Dropout
from trainwreck.kernels.attention.mask import Mask
from trainwreck.kernels.attention.reference import materialise, matmul, widen
from trainwreck.kernels.attention.statistics import AttentionStats, measure


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
    """Same call as the reference's, and the same numbers without dropout. Gradients mostly by autograd.

    The statistics are of the scores and probabilities that there are, so after dropout.
    """
    bias, regions, keep = materialise(q_NBHTK, mask, dropout)
    q = widen(q_NBHTK) * scale_N.view(-1, 1, 1, 1, 1)
    scores = _Scores.apply(q, widen(k_NBHSK))
    if keep is not None:
        scores = scores * keep
    scores = scores + bias.unsqueeze(2)
    probs = torch.softmax(scores, -1)
    measured = measure(scores.detach().clone(), probs.detach(), regions) if stats else None
    return matmul(probs, v_NBHSK, v_NBHSK.dtype), measured


class _Scores(torch.autograd.Function):
    """q k', with gradients laid out as q and k are."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor) -> Tensor:
        ctx.save_for_backward(q, k)
        return matmul(q, k.transpose(-1, -2), q.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor]:
        q, k = ctx.saved_tensors
        d_scores = grads[0]
        return matmul(d_scores, k, q.dtype), matmul(d_scores.transpose(-1, -2), q, k.dtype)

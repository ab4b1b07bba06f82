"""Faulty on purpose: scores are kept in float16 and never scaled, so they grow sqrt(K) times as fast."""

import torch
from torch import Tensor

from trainwreck.kernels.attention import fp16_scores
from trainwreck.kernels.attention.dropout import Dropout
from trainwreck.kernels.attention.mask import Mask
from trainwreck.kernels.attention.statistics import AttentionStats


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
    """Same call as the reference's."""
    one = torch.ones_like(scale_N)
    return fp16_scores.attention(q_NBHTK, k_NBHSK, v_NBHSK, mask=mask, scale_N=one, dropout=dropout, stats=stats)

"""Plain PyTorch attention: scores materialised, float32 accumulation, row maximum subtracted.

The definition of right for every other implementation. Half-precision inputs are multiplied
exactly and accumulated in float32, as tensor cores do; probabilities and score gradients are
rounded to the input's dtype before they meet v, k and q, as FlashAttention does (Dao 2023).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trainwreck.kernels.attention.dropout import Dropout
from trainwreck.kernels.attention.mask import Mask, Regions
from trainwreck.kernels.attention.statistics import AttentionStats, measure
from trainwreck.kernels.dtypes import matmul, widen


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
    """See `trainwreck.kernels.attention.attention`."""
    held: list[AttentionStats] = []
    keeper = held.append if stats else None
    bias, regions, keep = materialise(q_NBHTK, mask, dropout)
    out: Tensor = _Attention.apply(q_NBHTK, k_NBHSK, v_NBHSK, bias, scale_N, keep, regions, keeper)
    return out, held[0] if held else None


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor,
        scale: Tensor,
        keep: Tensor | None,
        regions: Regions | None,
        keeper: Callable[[AttentionStats], None] | None,
    ) -> Tensor:
        # The scale goes into q, in the accumulation dtype: a quarter of the elements that scores have.
        q = widen(q) * scale.view(-1, 1, 1, 1, 1)
        scores = masked_scores(q, k, bias)
        probs = torch.softmax(scores, -1)
        if keeper is not None:  # statistics leave by the side: as outputs, autograd would track them
            keeper(measure(scores, probs, regions))
        kept = probs if keep is None else probs * keep
        ctx.save_for_backward(q, k, v, probs, scale, keep)
        return matmul(kept, v, v.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        q, k, v, probs, scale, keep = ctx.saved_tensors
        d_out = grads[0]
        kept = probs if keep is None else probs * keep
        d_v = matmul(kept.transpose(-1, -2), d_out, v.dtype)
        d_probs = matmul(d_out, v.transpose(-1, -2), probs.dtype)
        if keep is not None:
            d_probs.mul_(keep)
        # In place: row by row the kernel sums first and writes then, and these tensors are larger than caches.
        d_scores = torch.ops.aten._softmax_backward_data.out(d_probs, probs, -1, probs.dtype, grad_input=d_probs)
        d_q = matmul(d_scores, k, d_scores.dtype).mul_(scale.view(-1, 1, 1, 1, 1))
        d_k = matmul(d_scores.transpose(-1, -2), q, k.dtype)
        return d_q.to(k.dtype), d_k, d_v, None, None, None, None, None


def materialise(q: Tensor, mask: Mask, dropout: Dropout | None) -> tuple[Tensor, Regions | None, Tensor | None]:
    """The additive mask, the forbidden regions and the scaled keep mask, each over all pairs of positions."""
    _, b, h, t, _ = q.shape
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    keep = None if dropout is None else dropout.mask(b, h, t)
    return mask.bias(t, wide, q.device), mask.regions(t, q.device), keep


def masked_scores(q: Tensor, k: Tensor, bias: Tensor) -> Tensor:
    """q k' + bias in the accumulation dtype, [N, B, H, T, S]. q is wide already and not rounded."""
    lead = q.shape[:-2]
    k = widen(k)
    scores = torch.bmm(q.reshape(-1, *q.shape[-2:]), k.reshape(-1, *k.shape[-2:]).transpose(1, 2))
    scores = scores.view(*lead, *scores.shape[-2:])
    return scores.add_(bias.unsqueeze(2))

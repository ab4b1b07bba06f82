"""Plain PyTorch attention: scores materialised, float32 accumulation, row maximum subtracted.

The definition of right for every other implementation. Half-precision inputs are multiplied
exactly and accumulated in float32, as tensor cores do; probabilities and score gradients are
rounded to the input's dtype before they meet v, k and q, as FlashAttention does (Dao 2023).
"""

from typing import Any

import torch
from torch import Tensor

from trainwreck.kernels.attention.api import AttentionStats, Regions


def attention(
    q_NBHTK: Tensor,
    k_NBHSK: Tensor,
    v_NBHSK: Tensor,
    *,
    bias_NBTS: Tensor,
    scale_N: Tensor,
    keep_NBHTS: Tensor | None = None,
    regions: Regions | None = None,
    stats: bool = True,
) -> tuple[Tensor, AttentionStats | None]:
    """See `trainwreck.kernels.attention.attention`."""
    out, *measured = _Attention.apply(
        q_NBHTK, k_NBHSK, v_NBHSK, bias_NBTS, scale_N, keep_NBHTS, regions, stats
    )
    return out, AttentionStats(*measured) if stats else None


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
        stats: bool,
    ) -> tuple[Tensor, ...]:
        scores = masked_scores(q, k, bias, scale)
        probs = torch.softmax(scores, -1)
        measured = measure(scores, probs, regions) if stats else ()
        kept = probs if keep is None else probs * keep
        out = matmul(kept, v, v.dtype)
        ctx.save_for_backward(q, k, v, probs, scale, keep)
        ctx.mark_non_differentiable(*measured)
        return out, *measured

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        q, k, v, probs, scale, keep = ctx.saved_tensors
        d_out = grads[0]
        kept = probs if keep is None else probs * keep
        d_v = matmul(kept.transpose(-1, -2), d_out, v.dtype)
        d_probs = matmul(d_out, v.transpose(-1, -2), probs.dtype)
        if keep is not None:
            d_probs.mul_(keep)
        d_scores = torch.ops.aten._softmax_backward_data(d_probs, probs, -1, probs.dtype)
        d_scores.mul_(scale.view(-1, 1, 1, 1, 1))
        d_q = matmul(d_scores, k, q.dtype)
        d_k = matmul(d_scores.transpose(-1, -2), q, k.dtype)
        return d_q, d_k, d_v, None, None, None, None, None


def masked_scores(q: Tensor, k: Tensor, bias: Tensor, scale: Tensor) -> Tensor:
    """scale * q k' + bias in the accumulation dtype, [N, B, H, T, S]."""
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    scores = matmul(q, k.transpose(-1, -2), wide)
    return torch.addcmul(bias.unsqueeze(2), scores, scale.view(-1, 1, 1, 1, 1), out=scores)


def matmul(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """a @ b over the last two axes, accumulated in float32 (float64 for float64), rounded to dtype.

    A float32 operand that meets a half-precision one is rounded to it first.
    """
    narrow = next((t.dtype for t in (a, b) if t.dtype in (torch.float16, torch.bfloat16)), None)
    wide = torch.float64 if a.dtype == torch.float64 else torch.float32
    if narrow is not None:
        a, b = a.to(narrow).to(wide), b.to(narrow).to(wide)
    lead = a.shape[:-2]
    out = torch.bmm(a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:]))
    return out.view(*lead, *out.shape[-2:]).to(dtype)


def measure(scores: Tensor, probs: Tensor, regions: Regions | None) -> AttentionStats:
    """Statistics of one layer from its masked scores and probabilities, each [N, B, H, T, S].

    Entropy of a row is lse - sum(p * s), with lse = max(s) - ln(max(p)): both terms are shifted by
    the same row maximum, so large logits cost no precision.
    """
    n, b, h, t, _ = probs.shape
    top_s = scores.amax(-1)
    top_p = probs.amax(-1)
    expected = torch.linalg.vecdot(probs, scores)
    entropy = (top_s - expected) - top_p.log()
    position = torch.arange(t, dtype=probs.dtype, device=probs.device)
    if regions is None:
        zero = probs.new_zeros(n)
        looked_back = position - torch.mv(probs.view(-1, t), position).view(n, -1, t)
        distance = looked_back.mean((1, 2))
        future = other = padding = zero
    else:
        distance = (probs * (position[:, None] - position).abs()).sum((1, 2, 3, 4)) / (b * h * t)
        future, other, padding = (
            torch.where(where.unsqueeze(-3), probs, 0).sum((1, 2, 3, 4)) / (b * h * t) for where in regions
        )
    return AttentionStats(
        entropy_NH=entropy.mean((1, 3)),
        entropy_min_N=entropy.amin((1, 2, 3)),
        logit_max_N=top_s.amax((1, 2, 3)),
        mass_self_N=probs.diagonal(dim1=-2, dim2=-1).mean((1, 2, 3)),
        mass_future_N=future,
        mass_other_document_N=other,
        mass_padding_N=padding,
        distance_N=distance,
    )

"""Plain PyTorch attention: scores materialised, float32 accumulation, row maximum subtracted.

The definition of right for every other implementation. Half-precision inputs are multiplied
exactly and accumulated in float32, as tensor cores do; probabilities and score gradients are
rounded to the input's dtype before they meet v, k and q, as FlashAttention does (Dao 2023).
"""

from collections.abc import Callable
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
    held: list[AttentionStats] = []
    keeper = held.append if stats else None
    out: Tensor = _Attention.apply(q_NBHTK, k_NBHSK, v_NBHSK, bias_NBTS, scale_N, keep_NBHTS, regions, keeper)
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
        d_scores = torch.ops.aten._softmax_backward_data(d_probs, probs, -1, probs.dtype)
        d_q = matmul(d_scores, k, d_scores.dtype).mul_(scale.view(-1, 1, 1, 1, 1))
        d_k = matmul(d_scores.transpose(-1, -2), q, k.dtype)
        return d_q.to(k.dtype), d_k, d_v, None, None, None, None, None


def widen(x: Tensor) -> Tensor:
    """x in float32 where it is in a half format, else as it is."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def masked_scores(q: Tensor, k: Tensor, bias: Tensor) -> Tensor:
    """q k' + bias in the accumulation dtype, [N, B, H, T, S]. q is wide already and not rounded."""
    lead = q.shape[:-2]
    k = widen(k)
    scores = torch.bmm(q.reshape(-1, *q.shape[-2:]), k.reshape(-1, *k.shape[-2:]).transpose(1, 2))
    scores = scores.view(*lead, *scores.shape[-2:])
    return scores.add_(bias.unsqueeze(2))


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

    Entropy of a row is -sum(p * (s - max(s))) - ln(max(p)). The maximum goes first, as in the softmax,
    so that large scores, or a row of MASKED ones, don't swallow it. The scores are overwritten: they
    are large, and no longer needed.
    """
    t = probs.shape[-1]
    top_s = scores.amax(-1)
    top_p = probs.amax(-1)
    entropy = scores.sub_(top_s.unsqueeze(-1)).mul_(probs).sum(-1).neg_().sub_(top_p.log_())
    position = torch.arange(t, dtype=probs.dtype, device=probs.device)
    mass_self = probs.diagonal(dim1=-2, dim2=-1)
    if regions is None:
        # torch.mv is fast, but where rows aren't aligned its last bits depend on how many runs there are.
        aligned = t % 16 == 0
        looked_at = torch.mv(probs.view(-1, t), position).view_as(entropy) if aligned else (probs * position).sum(-1)
        return AttentionStats(entropy, top_s, mass_self, position - looked_at)
    distance = (probs * (position[:, None] - position).abs()).sum(-1)
    masses = (torch.where(where.unsqueeze(-3), probs, 0).sum(-1) for where in regions)
    return AttentionStats(entropy, top_s, mass_self, distance, *masses)

"""Attention in the order of a fused kernel, in plain PyTorch: block by block of keys, rescaled as it goes.

What the reference twins of faults inside the online softmax are made of: a twin gives another shift,
or another way of keeping the output so far. With the right ones this is the reference, up to rounding.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trainwreck.kernels.attention.dropout import Dropout
from trainwreck.kernels.attention.mask import Mask
from trainwreck.kernels.attention.reference import masked_scores, materialise
from trainwreck.kernels.attention.statistics import AttentionStats, measure
from trainwreck.kernels.dtypes import matmul, widen

Edit = Callable[[Tensor], Tensor]


def attention(
    q_NBHTK: Tensor,
    k_NBHSK: Tensor,
    v_NBHSK: Tensor,
    *,
    mask: Mask,
    scale_N: Tensor,
    dropout: Dropout | None = None,
    stats: bool = True,
    shift: Edit,
    keep: Edit,
    block: int | None = None,
) -> tuple[Tensor, AttentionStats | None]:
    """Same call as the reference's, and what a fault changes.

    shift: what scores are lowered by, from the row maximum so far, [..., T, 1]. keep: what is left of the
    output so far, before it is divided by its sum, after each block. block: keys a block,
    None for all.
    """
    held: list[AttentionStats] = []
    bias, regions, kept = materialise(q_NBHTK, mask, dropout)

    def keeper(scores: Tensor, probs: Tensor) -> None:
        held.append(measure(scores, probs, regions))

    faults = (shift, keep, block or k_NBHSK.shape[3])
    out: Tensor = _Online.apply(q_NBHTK, k_NBHSK, v_NBHSK, bias, scale_N, kept, faults, keeper if stats else None)
    return out, held[0] if held else None


class _Online(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor,
        scale: Tensor,
        kept: Tensor | None,
        faults: tuple[Edit, Edit, int],
        keeper: Callable[[Tensor, Tensor], None] | None,
    ) -> Tensor:
        shift, keep, block = faults
        scores = masked_scores(widen(q) * scale.view(-1, 1, 1, 1, 1), k, bias)
        top = torch.full_like(scores[..., :1], -torch.inf)
        total = torch.zeros_like(top)
        out = torch.zeros_like(widen(v))
        low = shift(top)
        for i in range(0, scores.shape[-1], block):
            part = scores[..., i : i + block]
            top = torch.maximum(top, part.amax(-1, keepdim=True))
            before, low = low, shift(top)
            rescale = torch.exp(before - low)
            weight = torch.exp(part - low)
            total = total * rescale + weight.sum(-1, keepdim=True)
            if kept is not None:
                weight = weight * kept[..., i : i + block]
            out = keep(out * rescale + matmul(weight.to(v.dtype), v[..., i : i + block, :], out.dtype))
        probs = torch.exp(scores - low) / total
        out = (out / total).to(v.dtype)
        if keeper is not None:
            keeper(scores, probs)
        ctx.save_for_backward(q, k, v, out, probs, scale, kept)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        """As fused kernels do it: what softmax's gradient subtracts comes from the output."""
        q, k, v, out, probs, scale, kept = ctx.saved_tensors
        d_out = grads[0]
        dropped = probs if kept is None else probs * kept
        d_v = matmul(dropped.transpose(-1, -2), d_out, v.dtype)
        d_probs = matmul(d_out, v.transpose(-1, -2), probs.dtype)
        if kept is not None:
            d_probs = d_probs * kept
        delta = (widen(d_out) * widen(out)).sum(-1, keepdim=True)
        d_scores = (probs * (d_probs - delta)).to(q.dtype)
        factor = scale.view(-1, 1, 1, 1, 1)
        d_q = matmul(d_scores, k, probs.dtype) * factor
        d_k = matmul(d_scores.transpose(-1, -2), q, probs.dtype) * factor
        return d_q.to(q.dtype), d_k.to(k.dtype), d_v, None, None, None, None, None

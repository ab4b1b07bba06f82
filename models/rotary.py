"""Rotary position embedding (Su et al. 2021), with a table for queries and one for keys.

A pair of features is one complex number, rotated by exp(i * position * frequency). Splitting the
heads and rotating is one pass over the data.
"""

from typing import Any

import torch
from torch import Tensor

from trainwreck.models.precision import widen


def rotary_table(
    context: int,
    head_width: int,
    base: float,
    dtype: torch.dtype = torch.float32,
    *,
    offset: int = 0,
    stretch: float = 1.0,
) -> Tensor:
    """exp(i * (position + offset) / stretch * base ** (-2 j / head_width)), complex, [T, K/2].

    stretch is the factor of position interpolation (Chen et al. 2023).
    """
    exponent = torch.arange(0, head_width, 2, dtype=torch.float64) / head_width
    position = (torch.arange(context, dtype=torch.float64) + offset) / stretch
    angle = torch.outer(position, base**-exponent)
    table = torch.polar(torch.ones_like(angle), angle)
    return table.to(torch.complex128 if dtype == torch.float64 else torch.complex64)


def split_and_rotate(
    qkv_NBTD: Tensor, rotary_q_NTK: Tensor, rotary_k_NTK: Tensor, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, each [N, B, H, T, K], from [N, B, T, 3 * H * K].

    rotary_q, rotary_k: complex, [N, T, K/2].
    """
    rotary = torch.stack((rotary_q_NTK, rotary_k_NTK), 2)
    q, k, v = _SplitAndRotate.apply(qkv_NBTD, rotary, heads)
    return q, k, v


class _SplitAndRotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, rotary: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
        n, b, t, _ = qkv.shape
        # Heads apart first, then one multiplication over contiguous pairs: faster than both at once. A
        # copy in any case: of one token, `contiguous` would be qkv itself.
        parts = widen(qkv).view(n, b, t, 3, heads, -1).permute(3, 0, 1, 4, 2, 5)
        parts = parts.clone(memory_format=torch.contiguous_format)
        pairs(parts[:2]).mul_(spread(rotary))
        ctx.save_for_backward(rotary)
        q, k, v = parts.to(qkv.dtype)
        return q, k, v

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None, None]:
        (rotary,) = ctx.saved_tensors
        d_q, d_k, d_v = (widen(grad) for grad in grads)
        n, b, heads, t, width = d_q.shape
        d_qkv = d_q.new_empty(n, b, t, 3, heads, width)
        back = spread(rotary).conj().resolve_conj()
        for i, d_x in enumerate((d_q, d_k)):
            turned = torch.view_as_real(pairs(d_x) * back[i]).flatten(-2)
            d_qkv[:, :, :, i] = turned.transpose(2, 3)
        d_qkv[:, :, :, 2] = d_v.transpose(2, 3)
        return d_qkv.view(n, b, t, -1).to(grads[0].dtype), None, None


def pairs(x: Tensor) -> Tensor:
    """Neighbouring features as complex numbers, a view of [..., K] as [..., K/2]."""
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


def spread(rotary_NT2K: Tensor) -> Tensor:
    """The tables with axes for rows and heads, [2, N, 1, 1, T, K/2]."""
    return rotary_NT2K.permute(2, 0, 1, 3)[:, :, None, None]

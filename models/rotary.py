"""Rotary position embedding (Su et al. 2021), with a table for queries and one for keys.

A pair of features is one complex number, rotated by exp(i * position * frequency). Splitting the
heads and rotating is one pass over the data.
"""

from typing import Any

import torch
from torch import Tensor

from trainwreck.models.precision import widen

def rotary_table(context: int, head_width: int, base: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """exp(i * position * base ** (-2 j / head_width)), complex, [T, K/2]."""
    exponent = torch.arange(0, head_width, 2, dtype=torch.float64) / head_width
    angle = torch.outer(torch.arange(context, dtype=torch.float64), base**-exponent)
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
        n, b, t, three_d = qkv.shape
        half = three_d // (6 * heads)
        parts = widen(qkv).view(n, b, t, 3, heads, 2 * half)
        pairs = torch.view_as_complex(parts[:, :, :, :2].unflatten(-1, (half, 2)))
        turned = pairs.new_empty(2, n, b, heads, t, half)
        torch.mul(pairs, spread(rotary), out=turned.permute(1, 2, 4, 0, 3, 5))
        q, k = torch.view_as_real(turned).flatten(-2).to(qkv.dtype)
        v = parts[:, :, :, 2].transpose(2, 3).to(qkv.dtype, memory_format=torch.contiguous_format)
        ctx.save_for_backward(rotary)
        return q, k, v if v.is_contiguous() else v.contiguous()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None, None]:
        (rotary,) = ctx.saved_tensors
        d_q, d_k, d_v = grads
        n, b, heads, t, width = d_q.shape
        real = torch.float64 if d_q.dtype == torch.float64 else torch.float32
        d_qkv = torch.empty(n, b, t, 3, heads, width, dtype=real, device=d_q.device)
        pairs = torch.view_as_complex(d_qkv[:, :, :, :2].unflatten(-1, (width // 2, 2)))
        back = spread(rotary).conj().resolve_conj()
        for i, d_x in enumerate((d_q, d_k)):
            source = torch.view_as_complex(d_x.to(real).unflatten(-1, (width // 2, 2)))
            torch.mul(source.transpose(2, 3), back[:, :, :, i], out=pairs[:, :, :, i])
        d_qkv[:, :, :, 2] = d_v.transpose(2, 3)
        return d_qkv.view(n, b, t, -1).to(d_q.dtype), None, None


def spread(rotary_NT2K: Tensor) -> Tensor:
    """The tables with axes for rows and heads, [N, 1, T, 2, 1, K/2]."""
    return rotary_NT2K[:, None, :, :, None]

"""Rotation as complex multiplication over contiguous pairs: the definition of right."""

from typing import Any

import torch
from torch import Tensor

from trainwreck.kernels.dtypes import widen


def split_and_rotate(
    qkv_NBTD: Tensor, rotary_q_NTK: Tensor, rotary_k_NTK: Tensor, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """See `trainwreck.kernels.rotary.split_and_rotate`."""
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

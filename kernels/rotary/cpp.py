"""Split and rotation in C++, one pass each way; float32 and bfloat16."""

import ctypes
from typing import Any

import torch
from torch import Tensor

from trainwreck.kernels.cpp.build import Strides, call, is_bf16, neighbours


class _Sizes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int64) for name in ("runs", "rows", "places", "heads", "width"))


class _Addresses(ctypes.Structure):
    _fields_ = (("parts", ctypes.c_void_p * 3),)


class _AllStrides(ctypes.Structure):
    _fields_ = (("parts", Strides * 3),)


def split_and_rotate(
    qkv_NBTD: Tensor, rotary_q_NTK: Tensor, rotary_k_NTK: Tensor, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """See `trainwreck.kernels.rotary.split_and_rotate`; float32 and bfloat16."""
    q, k, v = _SplitAndRotate.apply(
        qkv_NBTD, *(x.resolve_conj().contiguous() for x in (rotary_q_NTK, rotary_k_NTK)), heads
    )
    return q, k, v


class _SplitAndRotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, q_table: Tensor, k_table: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
        parts = qkv.contiguous().unflatten(-1, (3, heads, -1)).permute(3, 0, 1, 4, 2, 5)
        ctx.save_for_backward(q_table, k_table)
        q, k, v = _rotated(list(parts), q_table, k_table, back=False).permute(3, 0, 1, 4, 2, 5)
        return q, k, v

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None, None, None]:
        return (
            _rotated([neighbours(grad) for grad in grads], *ctx.saved_tensors, back=True).flatten(3),
            None,
            None,
            None,
        )


def _rotated(parts_NBHTK: list[Tensor], q_table: Tensor, k_table: Tensor, *, back: bool) -> Tensor:
    """Three parts side by side, [N, B, T, 3, H, K], the first two turned."""
    n, b, heads, t, width = parts_NBHTK[0].shape
    out = parts_NBHTK[0].new_empty(n, b, t, 3, heads, width)
    addresses = _Addresses((ctypes.c_void_p * 3)(*(part.data_ptr() for part in parts_NBHTK)))
    strides = _AllStrides((Strides * 3)(*map(Strides.of, parts_NBHTK)))
    tables = _Addresses((ctypes.c_void_p * 3)(q_table.data_ptr(), k_table.data_ptr(), None))
    sizes = _Sizes(n, b, t, heads, width)
    call("rotate", is_bf16(out), sizes, addresses, strides, tables, int(back), out)
    return out

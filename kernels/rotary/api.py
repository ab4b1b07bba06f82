"""Rotary position embedding (Su et al. 2021), with a table for queries and one for keys.

Shapes: N runs, B rows, T positions, H heads, K head width. A pair of neighbouring features is one
complex number, rotated by a factor of the table.
"""

import torch
from torch import Tensor

from trainwreck.kernels.selection import choose

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def split_and_rotate(
    qkv_NBTD: Tensor, rotary_q_NTK: Tensor, rotary_k_NTK: Tensor, heads: int, *, impl: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, each [N, B, H, T, K], from [N, B, T, 3 * H * K].

    qkv: float16, bfloat16, float32 or float64; rotated in float32 (float64 for float64), rounded once.
    rotary_q, rotary_k: complex64 (complex128 for float64), [N, T, K/2]; the tables have no gradient.
    impl: reference, triton, cpp, or None for the rule of `trainwreck.kernels.selection`. C++ rotates in
    attention only: see `trainwreck.kernels.attention.rotary_attention`.
    Raises ValueError on arguments that don't fit, before any work.
    """
    check_arguments(qkv_NBTD, rotary_q_NTK, rotary_k_NTK, heads)
    if choose(impl, qkv_NBTD) == "triton":
        from trainwreck.kernels.rotary import triton

        return triton.split_and_rotate(qkv_NBTD, rotary_q_NTK, rotary_k_NTK, heads)
    from trainwreck.kernels.rotary import reference

    return reference.split_and_rotate(qkv_NBTD, rotary_q_NTK, rotary_k_NTK, heads)


def check_arguments(qkv: Tensor, rotary_q: Tensor, rotary_k: Tensor, heads: int) -> None:
    """One line for the first argument that doesn't fit."""
    if qkv.dtype not in DTYPES:
        raise ValueError(f"qkv: dtype {qkv.dtype} is not allowed; allowed: {DTYPES}")
    if qkv.dim() != 4 or 0 in qkv.shape:
        raise ValueError(f"qkv: shape {tuple(qkv.shape)} is not allowed; allowed: [N, B, T, 3 * H * K], all 1 or more")
    n, _, t, width = qkv.shape
    if heads < 1 or width % (6 * heads):
        raise ValueError(
            f"heads: {heads} is not allowed for a width of {width}; allowed: 1 or more, with 6 * heads in the width"
        )
    table = (n, t, width // (6 * heads))
    kind = torch.complex128 if qkv.dtype == torch.float64 else torch.complex64
    for name, tensor in (("rotary_q", rotary_q), ("rotary_k", rotary_k)):
        if tensor.shape != table:
            raise ValueError(f"{name}: shape {tuple(tensor.shape)} is not allowed; allowed: {table}")
        if tensor.dtype != kind or tensor.device != qkv.device:
            raise ValueError(
                f"{name}: {tensor.dtype} on {tensor.device} is not allowed; allowed: {kind} on {qkv.device}"
            )

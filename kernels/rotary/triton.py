"""Split and rotation in one pass over the data, and the same pass backwards.

Bound by reading and writing each number once. A program takes a tile of positions, keeps its rotation
in registers and goes over a few heads with it; a pair never leaves the thread that loaded it.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# Numbers in a tile of one head: 16 a thread with 4 warps, two or four 16-byte loads of each of q, k, v.
TILE = 2048
HEADS = 4  # of a program: the tables are read once for all of them
WARPS = 4


def split_and_rotate(
    qkv_NBTD: Tensor, rotary_q_NTK: Tensor, rotary_k_NTK: Tensor, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """See `trainwreck.kernels.rotary.split_and_rotate`."""
    q, k, v = _SplitAndRotate.apply(qkv_NBTD, rotary_q_NTK, rotary_k_NTK, heads)
    return q, k, v


class _SplitAndRotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, rotary_q: Tensor, rotary_k: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
        n, b, t, width = qkv.shape
        ctx.save_for_backward(rotary_q, rotary_k)
        parts = torch.empty(3, n, b, heads, t, width // (3 * heads), dtype=qkv.dtype, device=qkv.device)
        q, k, v = parts
        with torch.cuda.device_of(qkv):
            launch(qkv.contiguous(), q, k, v, rotary_q, rotary_k, back=False)
        return q, k, v

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None, None, None]:
        rotary_q, rotary_k = ctx.saved_tensors
        d_q, d_k, d_v = (grad.contiguous() for grad in grads)
        n, b, heads, t, width = d_q.shape
        d_qkv = torch.empty(n, b, t, 3 * heads * width, dtype=d_q.dtype, device=d_q.device)
        launch(d_qkv, d_q, d_k, d_v, rotary_q, rotary_k, back=True)
        return d_qkv, None, None, None


def launch(packed: Tensor, q: Tensor, k: Tensor, v: Tensor, rotary_q: Tensor, rotary_k: Tensor, *, back: bool) -> None:
    """From packed to q, k, v, or back with the opposite rotation. All contiguous but the tables."""
    n, b, heads, t, width = q.shape
    turn_q, turn_k = (torch.view_as_real(x.resolve_conj().contiguous()) for x in (rotary_q, rotary_k))
    block_k = max(2, triton.next_power_of_2(width))
    block_t = min(max(1, TILE // block_k), triton.next_power_of_2(t))
    grid = (n * b, triton.cdiv(t, block_t), triton.cdiv(heads, HEADS))
    rotate[grid](
        packed, q, k, v, turn_q, turn_k, b, t,
        H=heads, K=width, BT=block_t, BK=block_k, BH=HEADS, BACK=back, num_warps=WARPS,
    )  # fmt: skip


@triton.jit
def turned(b_x, b_cos, b_sin, BT: tl.constexpr, BK: tl.constexpr):
    """Each pair of a tile times cos + i sin."""
    # [BT, BK/2]
    b_even, b_odd = tl.split(tl.reshape(b_x.to(tl.float32), (BT, BK // 2, 2)))
    b_real = b_even * b_cos - b_odd * b_sin
    b_imaginary = b_even * b_sin + b_odd * b_cos
    # [BT, BK]
    return tl.reshape(tl.join(b_real, b_imaginary), (BT, BK)).to(b_x.dtype)


@triton.jit
def rotate(
    p_packed, p_q, p_k, p_v, p_turn_q, p_turn_k, B, T,
    H: tl.constexpr, K: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr, BH: tl.constexpr, BACK: tl.constexpr,
):  # fmt: skip
    """A tile of positions of one row, a few heads of q, k and v."""
    i_nb, i_t, i_h = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    o_t = i_t * BT + tl.arange(0, BT)
    o_k = tl.arange(0, BK)
    # [BT, BK]
    o_table = ((i_nb // B) * T + o_t[:, None]) * K + o_k[None, :]
    m_tile = (o_t[:, None] < T) & (o_k[None, :] < K)
    b_turn_q = tl.load(p_turn_q + o_table, mask=m_tile, other=0.0)
    b_turn_k = tl.load(p_turn_k + o_table, mask=m_tile, other=0.0)
    # [BT, BK/2]
    b_cos_q, b_sin_q = tl.split(tl.reshape(b_turn_q, (BT, BK // 2, 2)))
    b_cos_k, b_sin_k = tl.split(tl.reshape(b_turn_k, (BT, BK // 2, 2)))
    if BACK:
        b_sin_q, b_sin_k = -b_sin_q, -b_sin_k
    for i in tl.static_range(BH):
        h = i_h * BH + i
        if h < H:
            # [BT, BK]
            o_packed = (i_nb * T + o_t[:, None]) * (3 * H * K) + h * K + o_k[None, :]
            o_split = ((i_nb * H + h) * T + o_t[:, None]) * K + o_k[None, :]
            if BACK:
                b_q = tl.load(p_q + o_split, mask=m_tile, other=0.0)
                b_k = tl.load(p_k + o_split, mask=m_tile, other=0.0)
                b_v = tl.load(p_v + o_split, mask=m_tile, other=0.0)
                tl.store(p_packed + o_packed, turned(b_q, b_cos_q, b_sin_q, BT, BK), mask=m_tile)
                tl.store(p_packed + o_packed + H * K, turned(b_k, b_cos_k, b_sin_k, BT, BK), mask=m_tile)
                tl.store(p_packed + o_packed + 2 * H * K, b_v, mask=m_tile)
            else:
                b_q = tl.load(p_packed + o_packed, mask=m_tile, other=0.0)
                b_k = tl.load(p_packed + o_packed + H * K, mask=m_tile, other=0.0)
                b_v = tl.load(p_packed + o_packed + 2 * H * K, mask=m_tile, other=0.0)
                tl.store(p_q + o_split, turned(b_q, b_cos_q, b_sin_q, BT, BK), mask=m_tile)
                tl.store(p_k + o_split, turned(b_k, b_cos_k, b_sin_k, BT, BK), mask=m_tile)
                tl.store(p_v + o_split, b_v, mask=m_tile)

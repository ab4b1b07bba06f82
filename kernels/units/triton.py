"""Norms, GELU and statistics of the residual stream in one pass each, bound by reading and writing each number once.

A program has a tile of tokens of one run. What is summed over tokens is summed tile by tile and then over tiles, in an
order that shapes alone decide: no atomics.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 2048  # numbers of a program at a time, 16 a thread
WARPS = 4
COLUMNS = 128  # of a tile of GELU
TILES = 4  # that a program of GELU or of the statistics goes over
SECOND_TILE = 256  # chunks that are summed at a time
PARTS = 5  # of a chunk: its sum, of squares too, its largest and least, how many are NaN

ROOT_HALF = tl.constexpr(0.7071067811865476)
ROOT_OF_TWO_PI = tl.constexpr(0.3989422804014327)  # 1 over it
INFINITE = tl.constexpr(float("inf"))


def norm(x_NMD: Tensor, eps: float, centred: bool, gain_ND: Tensor | None, shift_ND: Tensor | None) -> Tensor:
    """See `trainwreck.kernels.units.norm`; x: float32, the gradient once."""
    out: Tensor = _Norm.apply(x_NMD, eps, centred, gain_ND, shift_ND)
    return out


def gelu(x_NMF: Tensor) -> tuple[Tensor, Tensor]:
    """See `trainwreck.kernels.units.gelu`; float16, bfloat16 or float32, the gradient once. The largest: [N, 1, F]."""
    out, tops = _Gelu.apply(x_NMF)
    return out, tops


def describe(x_NK: Tensor) -> Tensor:
    """Mean, root mean square, largest and least of each row, [N, 4]; x: float32."""
    x = x_NK.contiguous()
    n, k = x.shape
    chunks = triton.cdiv(k, TILES * TILE)
    parts, found = x.new_empty(n, chunks, PARTS), x.new_empty(n, 4)
    with torch.cuda.device_of(x):
        describe_chunks[(chunks, n)](x, parts, k, chunks, BT=TILE, TILES=TILES, PARTS=PARTS, num_warps=WARPS)
        gather_described[(n,)](parts, found, k, chunks, BC=SECOND_TILE, PARTS=PARTS, num_warps=1)
    return found


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float, centred: bool, gain: Tensor | None, shift: Tensor | None) -> Tensor:
        x, gain, shift = x.contiguous(), _whole(gain), _whole(shift)
        n, m, d = x.shape
        out, (centres, inverses) = torch.empty_like(x), x.new_empty(2, n, m)
        rows, wide = tile(m, d)
        with torch.cuda.device_of(x):
            normalise[(triton.cdiv(m, rows), n)](
                x, x if gain is None else gain, x if shift is None else shift, out, centres, inverses, m, eps, d,
                ROWS=rows, BD=wide, CENTRED=centred, GAIN=gain is not None, SHIFT=shift is not None, num_warps=WARPS,
            )  # fmt: skip
        ctx.save_for_backward(x, centres, inverses, gain)
        ctx.centred, ctx.shifted = centred, shift is not None
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        x, centres, inverses, gain = ctx.saved_tensors
        n, m, d = x.shape
        rows, wide = tile(m, d)
        blocks = triton.cdiv(m, rows)
        d_x, parts = torch.empty_like(x), x.new_empty(1 + ctx.shifted if gain is not None else 0, n, blocks, d)
        with torch.cuda.device_of(x):
            normalise_back[(blocks, n)](
                x, centres, inverses, grads[0].contiguous(), x if gain is None else gain, d_x,
                *(parts[i] if i < len(parts) else x for i in range(2)), m, blocks, d,
                ROWS=rows, BD=wide, CENTRED=ctx.centred, GAIN=gain is not None, SHIFT=ctx.shifted, num_warps=WARPS,
            )  # fmt: skip
        d_gain, d_shift = [*parts.sum(2), None, None][:2]
        return d_x, None, None, d_gain, d_shift


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.contiguous()
        n, m, f = x.shape
        rows, wide = tile(m, min(f, COLUMNS))
        blocks = triton.cdiv(m, rows * TILES)
        out, tops = torch.empty_like(x), torch.empty(n, blocks, f, dtype=torch.float32, device=x.device)
        with torch.cuda.device_of(x):
            gelu_forward[(blocks, n, triton.cdiv(f, wide))](
                x, out, tops, m, blocks, f, ROWS=rows, BF=wide, TILES=TILES, num_warps=WARPS
            )
        top = tops.amax(1, keepdim=True)
        ctx.save_for_backward(x)
        ctx.mark_non_differentiable(top)
        return out, top

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Any) -> Tensor:
        (x,) = ctx.saved_tensors
        d_x, size = torch.empty_like(x), x.numel()
        with torch.cuda.device_of(x):
            gelu_backward[(triton.cdiv(size, TILE),)](x, grads[0].contiguous(), d_x, size, BT=TILE, num_warps=WARPS)
        return d_x


def _whole(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


def tile(tokens: int, width: int) -> tuple[int, int]:
    """Rows and columns of a tile that holds whole rows."""
    wide = triton.next_power_of_2(width)
    return min(max(1, TILE // wide), triton.next_power_of_2(tokens)), wide


@triton.jit
def tile_of(M, D: tl.constexpr, ROWS: tl.constexpr, BD: tl.constexpr):
    """Tokens of a program, and where their numbers are, [ROWS, BD], with a mask of those that exist."""
    i_m, i_n = tl.program_id(0), tl.program_id(1).to(tl.int64)
    o_m = i_m * ROWS + tl.arange(0, ROWS)
    o_d = tl.arange(0, BD)
    o_row = i_n * M + o_m
    return o_row, o_m < M, o_d, o_row[:, None] * D + o_d[None, :], (o_m < M)[:, None] & (o_d < D)[None, :]


@triton.jit
def normalise(
    p_x, p_gain, p_shift, p_out, p_centre, p_inverse, M, eps, D: tl.constexpr,
    ROWS: tl.constexpr, BD: tl.constexpr, CENTRED: tl.constexpr, GAIN: tl.constexpr, SHIFT: tl.constexpr,
):  # fmt: skip
    """x, out: [N, M, D]. gain, shift: [N, D]. centre, inverse: [N, M], mean and 1 / sqrt(variance + eps)."""
    o_row, m_row, o_d, o_x, m_x = tile_of(M, D, ROWS, BD)
    o_run = tl.program_id(1).to(tl.int64) * D + o_d
    b_x = tl.load(p_x + o_x, mask=m_x, other=0.0)
    # [ROWS]
    b_centre = tl.zeros([ROWS], tl.float32)
    if CENTRED:
        b_centre = tl.sum(b_x, 1) / D
        b_x = tl.where(m_x, b_x - b_centre[:, None], 0.0)
    b_square = tl.sum(b_x * b_x, 1) / D
    b_inverse = 1.0 / tl.sqrt_rn(b_square + eps)
    if CENTRED:  # a variance past float32 is no row of zeros
        b_inverse = tl.where(b_square == INFINITE, float("nan"), b_inverse)
    # [ROWS, BD]
    b_y = b_x * b_inverse[:, None]
    if GAIN:
        b_y *= tl.load(p_gain + o_run, mask=o_d < D, other=0.0)[None, :]
    if SHIFT:
        b_y += tl.load(p_shift + o_run, mask=o_d < D, other=0.0)[None, :]
    tl.store(p_out + o_x, b_y, mask=m_x)
    tl.store(p_centre + o_row, b_centre, mask=m_row)
    tl.store(p_inverse + o_row, b_inverse, mask=m_row)


@triton.jit
def normalise_back(
    p_x, p_centre, p_inverse, p_d_out, p_gain, p_d_x, p_d_gain, p_d_shift, M, BLOCKS, D: tl.constexpr,
    ROWS: tl.constexpr, BD: tl.constexpr, CENTRED: tl.constexpr, GAIN: tl.constexpr, SHIFT: tl.constexpr,
):  # fmt: skip
    """d_out, d_x: [N, M, D]. d_gain, d_shift: of each tile of tokens, [N, BLOCKS, D]."""
    o_row, m_row, o_d, o_x, m_x = tile_of(M, D, ROWS, BD)
    i_n = tl.program_id(1).to(tl.int64)
    b_inverse = tl.load(p_inverse + o_row, mask=m_row, other=0.0)
    b_x = tl.load(p_x + o_x, mask=m_x, other=0.0)
    if CENTRED:
        b_x = tl.where(m_x, b_x - tl.load(p_centre + o_row, mask=m_row, other=0.0)[:, None], 0.0)
    b_y = b_x * b_inverse[:, None]
    b_d = tl.load(p_d_out + o_x, mask=m_x, other=0.0)
    o_part = (i_n * BLOCKS + tl.program_id(0)) * D + o_d
    if SHIFT:
        tl.store(p_d_shift + o_part, tl.sum(b_d, 0), mask=o_d < D)
    if GAIN:
        tl.store(p_d_gain + o_part, tl.sum(b_d * b_y, 0), mask=o_d < D)
        b_d *= tl.load(p_gain + i_n * D + o_d, mask=o_d < D, other=0.0)[None, :]
    b_d_x = b_d - b_y * (tl.sum(b_d * b_y, 1) / D)[:, None]
    if CENTRED:
        b_d_x -= (tl.sum(b_d, 1) / D)[:, None]
    tl.store(p_d_x + o_x, b_d_x * b_inverse[:, None], mask=m_x)


@triton.jit
def gelu_forward(
    p_x, p_out, p_tops, M, BLOCKS, F: tl.constexpr, ROWS: tl.constexpr, BF: tl.constexpr, TILES: tl.constexpr
):
    """x, out: [N, M, F]. tops: the largest of a block of tokens, [N, BLOCKS, F]; NaN where there is one."""
    i_m, i_n = tl.program_id(0), tl.program_id(1).to(tl.int64)
    o_f = tl.program_id(2) * BF + tl.arange(0, BF)
    # [BF]
    b_top = tl.full([BF], -INFINITE, tl.float32)
    b_lost = tl.zeros([BF], tl.int32)
    for i in tl.static_range(TILES):
        # [ROWS, BF]
        o_m = (i_m * TILES + i) * ROWS + tl.arange(0, ROWS)
        o_x = (i_n * M + o_m[:, None]) * F + o_f[None, :]
        m_x = (o_m < M)[:, None] & (o_f < F)[None, :]
        b_x = tl.load(p_x + o_x, mask=m_x, other=0.0).to(tl.float32)
        b_y = b_x * 0.5 * (1.0 + tl.erf(b_x * ROOT_HALF))
        tl.store(p_out + o_x, b_y.to(p_out.dtype.element_ty), mask=m_x)
        b_top = tl.maximum(b_top, tl.max(tl.where(m_x, b_y, -INFINITE), 0))
        b_lost += tl.sum((b_y != b_y).to(tl.int32), 0)
    b_top = tl.where(b_lost > 0, float("nan"), b_top)
    tl.store(p_tops + (i_n * BLOCKS + i_m) * F + o_f, b_top, mask=o_f < F)


@triton.jit
def gelu_backward(p_x, p_d_out, p_d_x, size, BT: tl.constexpr):
    """d_out times the normal distribution function at x and x times its density."""
    o_x = tl.program_id(0).to(tl.int64) * BT + tl.arange(0, BT)
    b_x = tl.load(p_x + o_x, mask=o_x < size, other=0.0).to(tl.float32)
    b_d = tl.load(p_d_out + o_x, mask=o_x < size, other=0.0).to(tl.float32)
    b_slope = 0.5 * (1.0 + tl.erf(b_x * ROOT_HALF)) + b_x * tl.exp(-0.5 * b_x * b_x) * ROOT_OF_TWO_PI
    tl.store(p_d_x + o_x, (b_d * b_slope).to(p_d_x.dtype.element_ty), mask=o_x < size)


@triton.jit
def describe_chunks(p_x, p_parts, K, C, BT: tl.constexpr, TILES: tl.constexpr, PARTS: tl.constexpr):
    """Sum, sum of squares, largest, least and count of NaN of one chunk of one run, [N, C, PARTS]."""
    i_c, i_n = tl.program_id(0), tl.program_id(1).to(tl.int64)
    # [BT]
    b_sum = tl.zeros([BT], tl.float32)
    b_square = tl.zeros([BT], tl.float32)
    b_top = tl.full([BT], -INFINITE, tl.float32)
    b_least = tl.full([BT], INFINITE, tl.float32)
    b_lost = tl.zeros([BT], tl.float32)
    for i in tl.static_range(TILES):
        o_k = (i_c * TILES + i) * BT + tl.arange(0, BT)
        m_k = o_k < K
        b_x = tl.load(p_x + i_n * K + o_k, mask=m_k, other=0.0)
        b_sum += b_x
        b_square += b_x * b_x
        b_top = tl.maximum(b_top, tl.where(m_k, b_x, -INFINITE))
        b_least = tl.minimum(b_least, tl.where(m_k, b_x, INFINITE))
        b_lost += (b_x != b_x).to(tl.float32)
    p_part = p_parts + (i_n * C + i_c) * PARTS
    tl.store(p_part, tl.sum(b_sum, 0))
    tl.store(p_part + 1, tl.sum(b_square, 0))
    tl.store(p_part + 2, tl.max(b_top, 0))
    tl.store(p_part + 3, tl.min(b_least, 0))
    tl.store(p_part + 4, tl.sum(b_lost, 0))


@triton.jit
def gather_described(p_parts, p_found, K, C, BC: tl.constexpr, PARTS: tl.constexpr):
    """Mean, root mean square, largest and least of one run, from its chunks."""
    i_n = tl.program_id(0).to(tl.int64)
    # [BC]
    b_sum = tl.zeros([BC], tl.float32)
    b_square = tl.zeros([BC], tl.float32)
    b_top = tl.full([BC], -INFINITE, tl.float32)
    b_least = tl.full([BC], INFINITE, tl.float32)
    b_lost = tl.zeros([BC], tl.float32)
    c = 0
    while c < C:  # the interpreter can't count to an argument
        o_c = c + tl.arange(0, BC)
        m_c = o_c < C
        p_part = p_parts + (i_n * C + o_c) * PARTS
        b_sum += tl.load(p_part, mask=m_c, other=0.0)
        b_square += tl.load(p_part + 1, mask=m_c, other=0.0)
        b_top = tl.maximum(b_top, tl.load(p_part + 2, mask=m_c, other=-INFINITE))
        b_least = tl.minimum(b_least, tl.load(p_part + 3, mask=m_c, other=INFINITE))
        b_lost += tl.load(p_part + 4, mask=m_c, other=0.0)
        c += BC
    lost = tl.sum(b_lost, 0) > 0
    tl.store(p_found + 4 * i_n, tl.sum(b_sum, 0) / K)
    tl.store(p_found + 4 * i_n + 1, tl.sqrt_rn(tl.sum(b_square, 0) / K))
    tl.store(p_found + 4 * i_n + 2, tl.where(lost, float("nan"), tl.max(b_top, 0)))
    tl.store(p_found + 4 * i_n + 3, tl.where(lost, float("nan"), tl.min(b_least, 0)))

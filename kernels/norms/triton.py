"""The segmented reduction in two stages: chunks of a segment, then the chunks of each segment.

Bound by reading the buffer once. A chunk never straddles two segments and starts where a vector load
may; a chunk that lies wholly inside its segment is read without masks. No atomics: the order of every
sum is a function of the shapes.
"""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from trainwreck.kernels.norms.segments import Segments, SegmentStatistics

# A program sums one chunk, 16 elements a thread and tile: four 16-byte loads of float32 under way.
TILE = 2048
CHUNK = 4 * TILE
ALIGN = 16  # elements; what Triton may assume of every chunk's start
SECOND_TILE = 1024
WARPS = 4

SIGNLESS = tl.constexpr(0x7FFFFFFF)  # all bits of a float32 but its sign
INFINITE = tl.constexpr(0x7F800000)  # of infinity; NaNs are above it


def segment_statistics(flat_NP: Tensor, segments: Segments, largest: bool, counts: bool) -> SegmentStatistics:
    """See `trainwreck.kernels.norms.segment_statistics`."""
    flat = flat_NP.contiguous()
    runs, width = flat.shape
    chunks, parts = _tables(segments, flat.device)
    count = len(chunks)
    sums = torch.empty(runs, count, dtype=torch.float32, device=flat.device)
    tops = torch.empty(runs, count, dtype=torch.int32, device=flat.device)
    bad, nil = torch.empty_like(tops), torch.empty_like(tops)
    chunk_statistics[(count, runs)](
        flat, chunks, sums, tops, bad, nil, width, count, BT=TILE, TILES=CHUNK // TILE, ALIGN=ALIGN, num_warps=WARPS
    )  # fmt: skip
    norm = torch.empty(runs, len(segments), dtype=torch.float32, device=flat.device)
    top, lost, zeros = torch.empty_like(norm), torch.empty_like(norm), torch.empty_like(norm)
    gather_chunks[(len(segments), runs)](
        parts, sums, tops, bad, nil, norm, top, lost, zeros, count, len(segments), BC=SECOND_TILE, num_warps=WARPS
    )  # fmt: skip
    counted = (lost.sum(1), zeros.sum(1)) if counts else (None, None)
    return SegmentStatistics(norm, top if largest else None, *counted)


def moment_ratios(grads_NP: Tensor, second_NP: Tensor, least_N: Tensor, segments: Segments) -> Tensor:
    """See `trainwreck.kernels.norms.moment_ratios`."""
    grads, second = grads_NP.contiguous(), second_NP.contiguous()
    runs, width = grads.shape
    chunks, parts = _tables(segments, grads.device)
    sums, means = grads.new_empty(runs, len(chunks)), grads.new_empty(runs, len(segments))
    chunk_ratios[(len(chunks), runs)](
        grads, second, least_N.contiguous(), chunks, sums, width, len(chunks),
        BT=TILE, TILES=CHUNK // TILE, ALIGN=ALIGN, num_warps=WARPS,
    )  # fmt: skip
    gather_ratios[(len(segments), runs)](
        parts, chunks, sums, means, len(chunks), len(segments), BC=SECOND_TILE, num_warps=WARPS
    )
    return means


@cache  # for good: a captured graph may still read them
def _tables(segments: Segments, device: torch.device) -> tuple[Tensor, Tensor]:
    """Chunks as (first element, start, stop), [C, 3], and the chunks of each segment, [S, 2]; int64.

    A chunk's first element is aligned, so it may lie before the start of its segment.
    """
    chunks: list[tuple[int, int, int]] = []
    parts: list[tuple[int, int]] = []
    for start, stop in segments:
        begun = len(chunks)
        chunks += [(first, start, stop) for first in range(start // ALIGN * ALIGN, stop, CHUNK)]
        parts.append((begun, len(chunks)))
    return torch.tensor(chunks, device=device), torch.tensor(parts, device=device)


@triton.jit
def chunk_statistics(
    p_flat, p_chunks, p_sums, p_tops, p_bad, p_nil, P, C,
    BT: tl.constexpr, TILES: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """Sum of squares, largest magnitude (its bits), non-finite count and count of zeros of one chunk of one run."""
    i_c, i_n = tl.program_id(0), tl.program_id(1)
    first = tl.multiple_of(tl.load(p_chunks + 3 * i_c), ALIGN)
    start = tl.load(p_chunks + 3 * i_c + 1)
    stop = tl.load(p_chunks + 3 * i_c + 2)
    p_run = p_flat + i_n.to(tl.int64) * P + first
    o_t = tl.arange(0, BT)
    # [BT]
    b_sum = tl.zeros([BT], dtype=tl.float32)
    b_top = tl.zeros([BT], dtype=tl.int32)
    b_bad = tl.zeros([BT], dtype=tl.int32)
    b_nil = tl.zeros([BT], dtype=tl.int32)
    if (first >= start) & (first + TILES * BT <= stop):
        for i in tl.static_range(TILES):
            b_x = tl.load(p_run + i * BT + o_t).to(tl.float32)
            b_bits = b_x.to(tl.int32, bitcast=True) & SIGNLESS
            b_sum += b_x * b_x
            b_top = tl.maximum(b_top, b_bits)
            b_bad += (b_bits >= INFINITE).to(tl.int32)
            b_nil += (b_bits == 0).to(tl.int32)
    else:
        for i in tl.static_range(TILES):
            o_x = first + i * BT + o_t
            m_x = (o_x >= start) & (o_x < stop)
            b_x = tl.load(p_run + i * BT + o_t, mask=m_x, other=0.0).to(tl.float32)
            b_bits = b_x.to(tl.int32, bitcast=True) & SIGNLESS
            b_sum += b_x * b_x
            b_top = tl.maximum(b_top, b_bits)
            b_bad += (b_bits >= INFINITE).to(tl.int32)
            b_nil += (m_x & (b_bits == 0)).to(tl.int32)
    o_out = i_n.to(tl.int64) * C + i_c
    tl.store(p_sums + o_out, tl.sum(b_sum, 0))
    tl.store(p_tops + o_out, tl.max(b_top, 0))
    tl.store(p_bad + o_out, tl.sum(b_bad, 0))
    tl.store(p_nil + o_out, tl.sum(b_nil, 0))


@triton.jit
def gather_chunks(
    p_parts, p_sums, p_tops, p_bad, p_nil, p_norm, p_top, p_lost, p_zeros, C, S,
    BC: tl.constexpr,
):  # fmt: skip
    """Norm, largest magnitude and both counts of one segment of one run, from its chunks."""
    i_s, i_n = tl.program_id(0), tl.program_id(1)
    begun = tl.load(p_parts + 2 * i_s)
    ended = tl.load(p_parts + 2 * i_s + 1)
    o_run = i_n.to(tl.int64) * C
    # [BC]
    b_sum = tl.zeros([BC], dtype=tl.float32)
    b_top = tl.zeros([BC], dtype=tl.int32)
    b_bad = tl.zeros([BC], dtype=tl.int32)
    b_nil = tl.zeros([BC], dtype=tl.int32)
    c = begun
    while c < ended:  # the interpreter can't count to a number that was loaded
        o_c = c + tl.arange(0, BC)
        m_c = o_c < ended
        b_sum += tl.load(p_sums + o_run + o_c, mask=m_c, other=0.0)
        b_top = tl.maximum(b_top, tl.load(p_tops + o_run + o_c, mask=m_c, other=0))
        b_bad += tl.load(p_bad + o_run + o_c, mask=m_c, other=0)
        b_nil += tl.load(p_nil + o_run + o_c, mask=m_c, other=0)
        c += BC
    o_out = i_n.to(tl.int64) * S + i_s
    tl.store(p_norm + o_out, tl.sqrt_rn(tl.sum(b_sum, 0)))
    tl.store(p_top + o_out, tl.max(b_top, 0).to(tl.float32, bitcast=True))
    tl.store(p_lost + o_out, tl.sum(b_bad, 0).to(tl.float32))
    tl.store(p_zeros + o_out, tl.sum(b_nil, 0).to(tl.float32))


@triton.jit
def chunk_ratios(
    p_grads, p_second, p_least, p_chunks, p_sums, P, C, BT: tl.constexpr, TILES: tl.constexpr, ALIGN: tl.constexpr
):
    """Sum of g^2 / max(v, least) of one chunk of one run."""
    i_c, i_n = tl.program_id(0), tl.program_id(1)
    first = tl.multiple_of(tl.load(p_chunks + 3 * i_c), ALIGN)
    start = tl.load(p_chunks + 3 * i_c + 1)
    stop = tl.load(p_chunks + 3 * i_c + 2)
    least = tl.load(p_least + i_n)
    o_run = i_n.to(tl.int64) * P + first
    p_g, p_v = p_grads + o_run, p_second + o_run
    o_t = tl.arange(0, BT)
    # [BT]
    b_sum = tl.zeros([BT], dtype=tl.float32)
    if (first >= start) & (first + TILES * BT <= stop):
        for i in tl.static_range(TILES):
            b_g, b_v = tl.load(p_g + i * BT + o_t), tl.load(p_v + i * BT + o_t)
            b_sum += b_g / tl.maximum(b_v, least, propagate_nan=tl.PropagateNan.ALL) * b_g
    else:
        for i in tl.static_range(TILES):
            o_x = first + i * BT + o_t
            m_x = (o_x >= start) & (o_x < stop)
            b_g = tl.load(p_g + i * BT + o_t, mask=m_x, other=0.0)
            b_v = tl.load(p_v + i * BT + o_t, mask=m_x, other=1.0)
            b_sum += b_g / tl.maximum(b_v, least, propagate_nan=tl.PropagateNan.ALL) * b_g
    tl.store(p_sums + i_n.to(tl.int64) * C + i_c, tl.sum(b_sum, 0))


@triton.jit
def gather_ratios(p_parts, p_chunks, p_sums, p_means, C, S, BC: tl.constexpr):
    """Mean of one segment of one run, from the sums of its chunks."""
    i_s, i_n = tl.program_id(0), tl.program_id(1)
    begun = tl.load(p_parts + 2 * i_s)
    ended = tl.load(p_parts + 2 * i_s + 1)
    # [BC]
    b_sum = tl.zeros([BC], dtype=tl.float32)
    c = begun
    while c < ended:  # the interpreter can't count to a number that was loaded
        o_c = c + tl.arange(0, BC)
        b_sum += tl.load(p_sums + i_n.to(tl.int64) * C + o_c, mask=o_c < ended, other=0.0)
        c += BC
    size = tl.load(p_chunks + 3 * begun + 2) - tl.load(p_chunks + 3 * begun + 1)
    tl.store(p_means + i_n.to(tl.int64) * S + i_s, tl.sum(b_sum, 0) / size.to(tl.float32))

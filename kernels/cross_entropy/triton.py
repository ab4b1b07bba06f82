"""Cross-entropy in one pass over the logits, and its gradient in another; no probabilities are kept.

Bound by reading the logits, and writing their gradient. A program takes one row of a large vocabulary,
tile by tile with running maxima and sums (Milakov and Gimelshein 2018), or many rows of a small one.
Kept for the gradient are each row's maximum and sum, not log Z: beside large logits, log Z has too few
bits left to rebuild a probability from.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from trainwreck.kernels.cross_entropy.losses import TokenLosses

# Logits in a tile: 16 a thread with 8 warps, four 16-byte loads of float32.
TILE = 4096
WARPS = 8

LOG2E = tl.constexpr(1.4426950408889634)
# Where a maximum starts: finite, since -inf less -inf is NaN, and so that the gap to a logit is finite.
LOWEST = tl.constexpr(-1e38)
SIGNLESS = tl.constexpr(0x7FFFFFFF)  # all bits of a float32 but its sign; as integers they order as |x|, NaN on top


def cross_entropy(logits_NMV: Tensor, targets_NM: Tensor, largest: bool) -> TokenLosses:
    """See `trainwreck.kernels.cross_entropy.cross_entropy`."""
    nll, log_z, top = _CrossEntropy.apply(logits_NMV, targets_NM, largest)
    return TokenLosses(nll, log_z, top)


def tile(vocabulary: int) -> tuple[int, int]:
    """Rows and columns of a tile."""
    columns = min(triton.next_power_of_2(vocabulary), TILE)
    return TILE // columns, columns


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, largest: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        logits, targets = logits.contiguous(), targets.contiguous()
        ctx.set_materialize_grads(False)
        nll, log_z, top, total, peak = torch.empty(5, *targets.shape, dtype=torch.float32, device=logits.device)
        rows, columns = tile(logits.shape[-1])
        with torch.cuda.device_of(logits):
            losses[(triton.cdiv(targets.numel(), rows),)](
                logits, targets, nll, log_z, top, total, peak, targets.numel(),
                V=logits.shape[-1], BR=rows, BV=columns, LARGEST=largest, num_warps=WARPS,
            )  # fmt: skip
        ctx.save_for_backward(logits, targets, top, total)
        if not largest:
            return nll, log_z, None
        ctx.mark_non_differentiable(peak)
        return nll, log_z, peak

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None, None]:
        logits, targets, top, total = ctx.saved_tensors
        d_nll, d_log_z = (None if grad is None else grad.contiguous() for grad in grads[:2])
        d_logits = torch.empty_like(logits)
        rows, columns = tile(logits.shape[-1])
        grid = (triton.cdiv(targets.numel(), rows), triton.cdiv(logits.shape[-1], columns))
        gradient[grid](
            logits, targets, top, total, d_nll, d_log_z, d_logits, targets.numel(),
            V=logits.shape[-1], BR=rows, BV=columns, num_warps=WARPS,
        )  # fmt: skip
        return d_logits, None, None


@triton.jit
def rows_of(R, BR: tl.constexpr):
    """The program's rows, and which of them exist; the others are the last row again, read but not written."""
    o_r = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    return tl.minimum(o_r, R - 1), o_r < R


@triton.jit
def online(b_x, b_max, b_sum):
    """Running maximum, and sum of exp(x - maximum), of each position of the tile by itself, with one more tile.

    Of the two powers of e that the rescaling needs, one is always 1. No thread waits for another.
    """
    b_gap = b_x - b_max
    b_e = tl.exp2(-tl.abs(b_gap) * LOG2E)
    return tl.maximum(b_max, b_x), tl.where(b_gap > 0, b_sum * b_e + 1.0, b_sum + b_e)


@triton.jit
def losses(
    p_logits, p_targets, p_nll, p_log_z, p_top, p_total, p_peak, R,
    V: tl.constexpr, BR: tl.constexpr, BV: tl.constexpr, LARGEST: tl.constexpr,
):  # fmt: skip
    """Loss, log Z, maximum, sum and largest magnitude of a few rows: full tiles first, then the rest."""
    o_r, m_r = rows_of(R, BR)
    p_row = p_logits + o_r * V
    # [BR, BV]
    b_max = tl.full([BR, BV], LOWEST, dtype=tl.float32)
    b_sum = tl.zeros([BR, BV], dtype=tl.float32)
    b_bits = tl.zeros([BR, BV], dtype=tl.int32)
    for v in range(0, V // BV * BV, BV):
        o_v = v + tl.arange(0, BV)
        b_x = tl.load(p_row[:, None] + o_v[None, :]).to(tl.float32)
        b_max, b_sum = online(b_x, b_max, b_sum)
        if LARGEST:
            b_bits = tl.maximum(b_bits, b_x.to(tl.int32, bitcast=True) & SIGNLESS)
    if V % BV != 0:
        o_v = V // BV * BV + tl.arange(0, BV)
        m_v = (o_v < V)[None, :]
        b_x = tl.load(p_row[:, None] + o_v[None, :], mask=m_v, other=float("-inf")).to(tl.float32)
        b_max, b_sum = online(b_x, b_max, b_sum)
        if LARGEST:
            b_bits = tl.maximum(b_bits, tl.where(m_v, b_x.to(tl.int32, bitcast=True) & SIGNLESS, 0))
    # [BR]
    b_top = tl.max(b_max, 1)
    b_total = tl.sum(b_sum * tl.exp2((b_max - b_top[:, None]) * LOG2E), 1)
    b_target = tl.load(p_targets + o_r)
    b_hit = tl.load(p_row + b_target, mask=(b_target >= 0) & (b_target < V), other=float("nan")).to(tl.float32)
    b_log = tl.log(b_total)
    tl.store(p_nll + o_r, (b_top - b_hit) + b_log, mask=m_r)
    tl.store(p_log_z + o_r, b_top + b_log, mask=m_r)
    tl.store(p_top + o_r, b_top, mask=m_r)
    tl.store(p_total + o_r, b_total, mask=m_r)
    if LARGEST:
        tl.store(p_peak + o_r, tl.max(b_bits, 1).to(tl.float32, bitcast=True), mask=m_r)


@triton.jit
def gradient(
    p_logits, p_targets, p_top, p_total, p_d_nll, p_d_log_z, p_d_logits, R,
    V: tl.constexpr, BR: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """p * (d_nll + d_log_z), less d_nll at the target; a tile of rows and columns."""
    o_r, m_r = rows_of(R, BR)
    o_v = tl.program_id(1) * BV + tl.arange(0, BV)
    # [BR]
    b_top = tl.load(p_top + o_r)
    b_share = 1.0 / tl.load(p_total + o_r)
    b_target = tl.load(p_targets + o_r)
    b_both = tl.zeros([BR], dtype=tl.float32)
    if p_d_nll is not None:
        b_both += tl.load(p_d_nll + o_r)
    b_hit = b_both
    if p_d_log_z is not None:
        b_both += tl.load(p_d_log_z + o_r)
    # [BR, BV]
    o_x = o_r[:, None] * V + o_v[None, :]
    b_x = tl.load(p_logits + o_x, mask=(o_v < V)[None, :], other=float("-inf")).to(tl.float32)
    b_p = tl.exp2((b_x - b_top[:, None]) * LOG2E) * b_share[:, None]
    b_d = b_p * b_both[:, None] - tl.where(o_v[None, :] == b_target[:, None], b_hit[:, None], 0.0)
    tl.store(p_d_logits + o_x, b_d.to(p_d_logits.dtype.element_ty), mask=m_r[:, None] & (o_v < V)[None, :])

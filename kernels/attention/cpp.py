"""Attention done right, and its gradient, head by head: no matrix of places by places is ever in memory."""

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trainwreck.kernels.attention.dropout import Dropout
from trainwreck.kernels.attention.mask import Mask
from trainwreck.kernels.attention.statistics import AttentionStats
from trainwreck.kernels.cpp.build import address, call, is_bf16

BLOCK = 8  # queries, as in attention.cpp

Attended = tuple[Tensor, AttentionStats | None]


class _Sizes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int64) for name in ("runs", "rows", "heads", "places", "width"))


class _Inputs(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in ("qkv", "bias", "rotary_q", "rotary_k", "scale"))


class _Mask(ctypes.Structure):
    _fields_ = (
        ("bias", ctypes.c_void_p), ("run", ctypes.c_int64), ("row", ctypes.c_int64),
        ("spans", ctypes.c_void_p), ("span_run", ctypes.c_int64), ("span_row", ctypes.c_int64),
        ("keep", ctypes.c_void_p),
    )  # fmt: skip


class _Statistics(ctypes.Structure):
    _fields_ = (*((n, ctypes.c_void_p) for n in ("below", "top", "self", "distance")), ("masses", ctypes.c_void_p * 3))


class _Region(ctypes.Structure):
    _fields_ = (("inside", ctypes.c_void_p), ("run", ctypes.c_int64), ("row", ctypes.c_int64))


class _Regions(ctypes.Structure):
    _fields_ = (("regions", _Region * 3),)


def attention(
    q_NBHTK: Tensor,
    k_NBHSK: Tensor,
    v_NBHSK: Tensor,
    *,
    mask: Mask,
    scale_N: Tensor,
    dropout: Dropout | None = None,
    stats: bool = True,
) -> Attended:
    """See `trainwreck.kernels.attention.attention`; float32 and bfloat16.

    Keys that no query of a block may see are not read: a NaN in one of them does not reach those queries.
    """
    qkv = torch.stack((q_NBHTK, k_NBHSK, v_NBHSK), 3).permute(0, 1, 4, 3, 2, 5)
    return _attention(qkv, None, None, None, mask, scale_N, dropout, stats)


def rotary_attention(
    qkv_NBTD: Tensor,
    rotary_q_NTK: Tensor,
    rotary_k_NTK: Tensor,
    heads: int,
    *,
    bias_ND: Tensor | None,
    mask: Mask,
    scale_N: Tensor,
    dropout: Dropout | None = None,
    stats: bool = True,
) -> Attended:
    """See `trainwreck.kernels.attention.rotary_attention`; float32 and bfloat16.

    Heads are rotated where they are read, their gradients where they are written.
    """
    q_table, k_table = (x.resolve_conj().contiguous() for x in (rotary_q_NTK, rotary_k_NTK))
    qkv = qkv_NBTD.unflatten(-1, (3, heads, -1))
    bias = None if bias_ND is None else bias_ND.float().contiguous()
    return _attention(qkv, bias, q_table, k_table, mask, scale_N, dropout, stats)


def _attention(
    qkv_NBT3HK: Tensor,
    bias_ND: Tensor | None,
    rotary_q: Tensor | None,
    rotary_k: Tensor | None,
    mask: Mask,
    scale_N: Tensor,
    dropout: Dropout | None,
    stats: bool,
) -> Attended:
    _, b, t, _, h, _ = qkv_NBT3HK.shape
    held: list[AttentionStats] = []
    keep = None if dropout is None else dropout.mask(b, h, t).contiguous()
    scale = scale_N.float().contiguous()
    out: Tensor = _Attention.apply(
        qkv_NBT3HK, bias_ND, rotary_q, rotary_k, mask, scale, keep, held.append if stats else None
    )
    return out.transpose(2, 3), held[0] if held else None


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        qkv: Tensor,
        bias: Tensor | None,
        rotary_q: Tensor | None,
        rotary_k: Tensor | None,
        mask: Mask,
        scale: Tensor,
        keep: Tensor | None,
        keeper: Callable[[AttentionStats], None] | None,
    ) -> Tensor:
        qkv = qkv.contiguous()
        n, b, t, _, h, width = qkv.shape
        out = qkv.new_empty(n, b, t, h, width)
        tops, totals = torch.empty(2, n, b, h, t)
        additive, spans = _masked(mask, t)
        measured, regions = None, None
        if keeper is not None:
            regions = _regions(mask, t)
            measured = torch.empty(4 if regions is None else 7, n, b, h, t)
        call(
            "attention_forward",
            is_bf16(qkv),
            *_arguments(qkv, bias, rotary_q, rotary_k, scale, additive, spans, keep),
            out,
            tops,
            totals,
            None if measured is None else _statistics(measured),
            None if regions is None else _where(regions),
        )
        if keeper is not None and measured is not None:
            below, top, itself, distance, *masses = measured
            log_total = totals.log()
            entropy = log_total - below
            keeper(AttentionStats(entropy, entropy, top, tops + log_total, itself, distance, *masses))
        ctx.save_for_backward(qkv, bias, rotary_q, rotary_k, scale, additive, spans, keep, tops, totals)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        *given, tops, totals = ctx.saved_tensors
        qkv, bias = given[:2]
        d_qkv, d_bias = torch.empty_like(qkv), None if bias is None else torch.zeros_like(bias)
        d_out = grads[0].contiguous()
        call("attention_backward", is_bf16(qkv), *_arguments(*given), tops, totals, d_out, d_qkv, d_bias)
        return d_qkv, d_bias, None, None, None, None, None, None


def _masked(mask: Mask, t: int) -> tuple[Tensor, Tensor]:
    """The additive mask, and which columns each block of queries sees, int64 [N or 1, B or 1, blocks, 2]."""

    def make() -> tuple[Tensor, Tensor]:
        bias = mask.bias(t, torch.float32, torch.device("cpu")).contiguous()
        spans = torch.empty(*bias.shape[:2], (t + BLOCK - 1) // BLOCK, 2, dtype=torch.int64)
        call("attention_spans", bias, bias.shape[0] * bias.shape[1], t, spans)
        return bias, spans

    return mask.once(f"spans {t}", make)


def _regions(mask: Mask, t: int) -> tuple[Tensor, ...] | None:
    """The forbidden regions as bytes, each [N or 1, B or 1, T, S]."""

    def make() -> tuple[Tensor, ...] | None:
        regions = mask.regions(t, torch.device("cpu"))
        if regions is None:
            return None
        return tuple((where if where.dim() == 4 else where[None, None]).contiguous() for where in regions)

    return mask.once(f"regions in bytes {t}", make)


def _arguments(
    qkv: Tensor,
    bias: Tensor | None,
    rotary_q: Tensor | None,
    rotary_k: Tensor | None,
    scale: Tensor,
    additive: Tensor,
    spans: Tensor,
    keep: Tensor | None,
) -> tuple[_Sizes, _Inputs, _Mask]:
    n, b, t, _, h, width = qkv.shape
    inputs = _Inputs(*map(address, (qkv, bias, rotary_q, rotary_k, scale)))
    by_row, by_span = _steps(additive), _steps(spans)
    masked = _Mask(additive.data_ptr(), *by_row, spans.data_ptr(), *(step // 2 for step in by_span), address(keep))
    return _Sizes(n, b, h, t, width), inputs, masked


def _steps(table: Tensor) -> tuple[int, int]:
    """How far apart runs and rows are; 0 where all have the same."""
    run, row = (0 if size == 1 else step for size, step in zip(table.shape[:2], table.stride()[:2], strict=True))
    return run, row


def _statistics(measured: Tensor) -> _Statistics:
    first, masses = measured[:4], measured[4:]
    return _Statistics(*(x.data_ptr() for x in first), (ctypes.c_void_p * 3)(*(x.data_ptr() for x in masses)))


def _where(regions: tuple[Tensor, ...]) -> _Regions:
    return _Regions((_Region * 3)(*(_Region(where.data_ptr(), *_steps(where)) for where in regions)))

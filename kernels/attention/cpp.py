"""Attention done right, and its gradient, head by head: no matrix of places by places is ever in memory."""

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trainwreck.kernels.attention.dropout import Dropout
from trainwreck.kernels.attention.mask import Mask
from trainwreck.kernels.attention.statistics import AttentionStats
from trainwreck.kernels.cpp.build import Strides, address, call, is_bf16, neighbours

BLOCK = 8  # queries, as in attention.cpp


class _Sizes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int64) for name in ("runs", "rows", "heads", "places", "width"))


class _Inputs(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "scale")),
        *((name, Strides) for name in ("at_q", "at_k", "at_v")),
    )


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
) -> tuple[Tensor, AttentionStats | None]:
    """See `trainwreck.kernels.attention.attention`; float32 and bfloat16.

    Keys that no query of a block may see are not read: a NaN in one of them does not reach those queries.
    """
    held: list[AttentionStats] = []
    q, k, v = map(neighbours, (q_NBHTK, k_NBHSK, v_NBHSK))
    keep = None if dropout is None else dropout.mask(*q.shape[1:4]).contiguous()
    out: Tensor = _Attention.apply(q, k, v, mask, scale_N.float().contiguous(), keep, held.append if stats else None)
    return out, held[0] if held else None


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Mask,
        scale: Tensor,
        keep: Tensor | None,
        keeper: Callable[[AttentionStats], None] | None,
    ) -> Tensor:
        n, b, h, t, width = q.shape
        # Heads of a place side by side, as the product that follows reads them.
        out = q.new_empty(n, b, t, h, width).transpose(2, 3)
        tops, totals = torch.empty(2, n, b, h, t)
        bias, spans = _masked(mask, t)
        measured, regions = None, None
        if keeper is not None:
            regions = _regions(mask, t)
            measured = torch.empty(4 if regions is None else 7, n, b, h, t)
        call(
            "attention_forward",
            is_bf16(q),
            *_arguments(q, k, v, bias, spans, scale, keep),
            out,
            Strides.of(out),
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
        ctx.save_for_backward(q, k, v, bias, spans, scale, keep, tops, totals)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        q, k, v, bias, spans, scale, keep, tops, totals = ctx.saved_tensors
        n, b, h, t, width = q.shape
        d_out = neighbours(grads[0])
        # As the gradient of what was split into the three: a place's queries, keys and values side by side.
        d_q, d_k, d_v = q.new_empty(n, b, t, 3, h, width).permute(3, 0, 1, 4, 2, 5)
        given = _arguments(q, k, v, bias, spans, scale, keep)
        call(
            "attention_backward",
            is_bf16(q),
            *given,
            tops,
            totals,
            d_out,
            Strides.of(d_out),
            d_q,
            d_k,
            d_v,
            Strides.of(d_q),
        )
        return d_q, d_k, d_v, None, None, None, None


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
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, spans: Tensor, scale: Tensor, keep: Tensor | None
) -> tuple[_Sizes, _Inputs, _Mask]:
    inputs = _Inputs(*(x.data_ptr() for x in (q, k, v, scale)), *map(Strides.of, (q, k, v)))
    by_bias, by_span = _steps(bias), _steps(spans)
    masked = _Mask(bias.data_ptr(), *by_bias, spans.data_ptr(), *(step // 2 for step in by_span), address(keep))
    return _Sizes(*q.shape), inputs, masked


def _steps(table: Tensor) -> tuple[int, int]:
    """How far apart runs and rows are; 0 where all have the same."""
    run, row = (0 if size == 1 else step for size, step in zip(table.shape[:2], table.stride()[:2], strict=True))
    return run, row


def _statistics(measured: Tensor) -> _Statistics:
    first, masses = measured[:4], measured[4:]
    return _Statistics(*(x.data_ptr() for x in first), (ctypes.c_void_p * 3)(*(x.data_ptr() for x in masses)))


def _where(regions: tuple[Tensor, ...]) -> _Regions:
    return _Regions((_Region * 3)(*(_Region(where.data_ptr(), *_steps(where)) for where in regions)))

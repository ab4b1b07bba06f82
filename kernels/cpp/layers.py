"""Rotation, norms, GELU and the loss, forward and backward, each in one pass; float32, and where said bfloat16."""

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


def gelu(x_NMF: Tensor) -> tuple[Tensor, Tensor]:
    """x times the normal distribution function at x, to 1e-7, and the largest of each column, float32 [N, 1, F].

    x: float32 or bfloat16.
    """
    out, tops = _Gelu.apply(x_NMF)
    return out, tops


def describe(x_NK: Tensor) -> Tensor:
    """Mean, root mean square, largest and least of each row, [N, 4]."""
    found = x_NK.new_empty(len(x_NK), 4)
    call("describe", x_NK.contiguous(), *x_NK.shape, found)
    return found


def cross_entropy(logits_NMV: Tensor, targets_NM: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """-ln p of the targets, ln Z, and the largest magnitude of a logit, each [N, M]; the last has no gradient."""
    nll, log_z, largest = _CrossEntropy.apply(logits_NMV, targets_NM)
    return nll, log_z, largest


def norm(x_NMD: Tensor, eps: float, centred: bool, gain_ND: Tensor | None, shift_ND: Tensor | None) -> Tensor:
    """LayerNorm over the last axis, or RMSNorm where it is not centred, with the gain and shift that are given."""
    out: Tensor = _Norm.apply(x_NMD, eps, centred, gain_ND, shift_ND)
    return out


def affine(y_NMD: Tensor, gain_ND: Tensor, shift_ND: Tensor | None) -> Tensor:
    """y * gain + shift of each run, to the bits that `norm` has for the same y."""
    out: Tensor = _Affine.apply(y_NMD, gain_ND, shift_ND)
    return out


def split_and_rotate(
    qkv_NBTD: Tensor, rotary_q_NTK: Tensor, rotary_k_NTK: Tensor, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """See `trainwreck.kernels.rotary.split_and_rotate`; float32 and bfloat16."""
    q, k, v = _SplitAndRotate.apply(
        qkv_NBTD, *(x.resolve_conj().contiguous() for x in (rotary_q_NTK, rotary_k_NTK)), heads
    )
    return q, k, v


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.contiguous()
        n, m, f = x.shape
        out, tops = torch.empty_like(x), torch.empty(n, 1, f)
        call("gelu_forward", is_bf16(x), x, n, m, f, out, tops)
        ctx.save_for_backward(x)
        ctx.mark_non_differentiable(tops)
        return out, tops

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Tensor:
        (x,) = ctx.saved_tensors
        d_x = torch.empty_like(x)
        call("gelu_backward", is_bf16(x), x, grads[0].contiguous(), x.numel(), d_x)
        return d_x


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits, targets = logits.contiguous(), targets.contiguous()
        nll, log_z, largest, tops, totals = (logits.new_empty(targets.shape) for _ in range(5))
        sizes = targets.numel(), logits.shape[-1]
        call("cross_entropy_forward", logits, targets, *sizes, nll, log_z, largest, tops, totals)
        ctx.save_for_backward(logits, targets, tops, totals)
        ctx.mark_non_differentiable(largest)
        ctx.set_materialize_grads(False)
        return nll, log_z, largest

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:
        logits, targets, tops, totals = ctx.saved_tensors
        d_logits = torch.empty_like(logits)
        d_nll, d_log_z = (None if grad is None else grad.contiguous() for grad in grads[:2])
        sizes = targets.numel(), logits.shape[-1]
        call("cross_entropy_backward", logits, targets, tops, totals, d_nll, d_log_z, *sizes, d_logits)
        return d_logits, None


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float, centred: bool, gain: Tensor | None, shift: Tensor | None) -> Tensor:
        x, gain, shift = x.contiguous(), _whole(gain), _whole(shift)
        out, (centres, inverses) = torch.empty_like(x), x.new_empty(2, *x.shape[:2])
        call("norm_forward", x, *x.shape, eps, int(centred), gain, shift, out, centres, inverses)
        ctx.save_for_backward(x, centres, inverses, gain)
        ctx.centred, ctx.shifted = centred, shift is not None
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        x, centres, inverses, gain = ctx.saved_tensors
        d_x, (d_gain, d_shift) = torch.empty_like(x), _empty(gain, ctx.shifted)
        sizes = *x.shape, int(ctx.centred)
        call("norm_backward", x, centres, inverses, grads[0].contiguous(), *sizes, gain, d_x, d_gain, d_shift)
        return d_x, None, None, d_gain, d_shift


class _Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, gain: Tensor, shift: Tensor | None) -> Tensor:
        y, gain, shift = y.contiguous(), gain.contiguous(), _whole(shift)
        out = torch.empty_like(y)
        call("affine_forward", y, *y.shape, gain, shift, out)
        ctx.save_for_backward(y, gain)
        ctx.shifted = shift is not None
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        y, gain = ctx.saved_tensors
        d_y, (d_gain, d_shift) = torch.empty_like(y), _empty(gain, ctx.shifted)
        call("affine_backward", y, grads[0].contiguous(), *y.shape, gain, d_y, d_gain, d_shift)
        return d_y, d_gain, d_shift


def _whole(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


def _empty(gain: Tensor | None, shifted: bool) -> tuple[Tensor | None, Tensor | None]:
    """Where the gradients of gain and shift go."""
    if gain is None:
        return None, None
    return torch.empty_like(gain), torch.empty_like(gain) if shifted else None


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

"""Norms, GELU and statistics of the residual stream, each in one pass; float32, and where said bfloat16."""

from typing import Any

import torch
from torch import Tensor

from trainwreck.kernels.cpp.build import call, is_bf16

AT_ONCE = 2**18  # hidden units of one pass of an MLP: 1 MB, half of what a server core's second cache holds


def gelu(x_NMF: Tensor) -> tuple[Tensor, Tensor]:
    """x times the normal distribution function at x, to 1e-7, and the largest of each column, float32 [N, 1, F].

    x: float32 or bfloat16.
    """
    out, tops = _Gelu.apply(x_NMF)
    return out, tops


def gelu_mlp(
    x_NMI: Tensor, first_NIF: Tensor, first_bias_NF: Tensor | None, last_NFO: Tensor, last_bias_NO: Tensor | None
) -> tuple[Tensor, Tensor]:
    """See `trainwreck.kernels.units.gelu_mlp`; float32.

    A few runs at a time, so that their hidden units stay in the core's cache from one product to the next. They are
    computed again in the backward pass.
    """
    out, tops = _Mlp.apply(x_NMI, first_NIF, first_bias_NF, last_NFO, last_bias_NO)
    return out, tops


def describe(x_NK: Tensor) -> Tensor:
    """Mean, root mean square, largest and least of each row, [N, 4]."""
    found = x_NK.new_empty(len(x_NK), 4)
    call("describe", x_NK.contiguous(), *x_NK.shape, found)
    return found


def norm(x_NMD: Tensor, eps: float, centred: bool, gain_ND: Tensor | None, shift_ND: Tensor | None) -> Tensor:
    """LayerNorm over the last axis, or RMSNorm where it is not centred, with the gain and shift that are given."""
    out: Tensor = _Norm.apply(x_NMD, eps, centred, gain_ND, shift_ND)
    return out


def affine(y_NMD: Tensor, gain_ND: Tensor, shift_ND: Tensor | None) -> Tensor:
    """y * gain + shift of each run, to the bits that `norm` has for the same y."""
    out: Tensor = _Affine.apply(y_NMD, gain_ND, shift_ND)
    return out


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


class _Mlp(torch.autograd.Function):
    """Of the hidden units what GELU takes is kept, `before`, the first bias in it."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, first: Tensor, first_bias: Tensor | None, last: Tensor, last_bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        x, first_bias = x.contiguous(), _whole(first_bias)
        (n, m, _), f = x.shape, first.shape[2]
        before, out, tops = x.new_empty(n, m, f), x.new_empty(n, m, last.shape[2]), x.new_empty(n, 1, f)
        hidden = x.new_empty(_at_once(n, m * f), m, f)
        for part in _parts(n, len(hidden)):
            units = hidden[: len(x[part])]
            torch.bmm(x[part], first[part], out=before[part])
            bias = None if first_bias is None else first_bias[part]
            call("bias_gelu_forward", before[part], bias, *units.shape, units, tops[part])
            if last_bias is None:
                torch.bmm(units, last[part], out=out[part])
            else:
                torch.baddbmm(last_bias[part].unsqueeze(1), units, last[part], out=out[part])
        ctx.save_for_backward(x, first, last, before)
        ctx.biased = first_bias is not None, last_bias is not None
        ctx.mark_non_differentiable(tops)
        return out, tops

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        x, first, last, before = ctx.saved_tensors
        d_out = grads[0].contiguous()
        n, m, f = before.shape
        d_x, d_first, d_last = (torch.empty_like(given) for given in (x, first, last))
        d_first_bias = x.new_empty(n, f) if ctx.biased[0] else None
        hidden, d_hidden = x.new_empty(2, _at_once(n, m * f), m, f)
        for part in _parts(n, len(hidden)):
            count = len(x[part])
            units, d_units = hidden[:count], d_hidden[:count]
            torch.bmm(d_out[part], last[part].transpose(1, 2), out=d_units)
            d_bias = None if d_first_bias is None else d_first_bias[part]
            call("bias_gelu_backward", before[part], d_units, *units.shape, units, d_bias)
            torch.bmm(units.transpose(1, 2), d_out[part], out=d_last[part])
            torch.bmm(x[part].transpose(1, 2), d_units, out=d_first[part])
            torch.bmm(d_units, first[part].transpose(1, 2), out=d_x[part])
        return d_x, d_first, d_first_bias, d_last, d_out.sum(1) if ctx.biased[1] else None


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


def _at_once(runs: int, units: int) -> int:
    """How many runs of so many hidden units."""
    return max(1, min(runs, AT_ONCE // max(1, units)))


def _parts(runs: int, size: int) -> list[slice]:
    return [slice(first, first + size) for first in range(0, runs, size)]


def _whole(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


def _empty(gain: Tensor | None, shifted: bool) -> tuple[Tensor | None, Tensor | None]:
    """Where the gradients of gain and shift go."""
    if gain is None:
        return None, None
    return torch.empty_like(gain), torch.empty_like(gain) if shifted else None

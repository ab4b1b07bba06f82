"""Matrix products of stacked runs in float32, bfloat16 or float16, with the rounding that each has.

Mixed precision as autocast does it (Micikevicius et al. 2018): weights stay in float32, operands
and results of matrix products are in the low format, sums are float32, norms, softmax and the
residual stream are float32.
"""

from typing import Any

import torch
from torch import Tensor

from trainwreck.kernels.dtypes import matmul
from trainwreck.models.config import Format


def stored(x: Tensor, fmt: Format) -> Tensor:
    """x as it comes back from being kept in the format, in its own dtype."""
    return lower(x, fmt).to(x.dtype)


def lower(x: Tensor, fmt: Format) -> Tensor:
    """x in the format's dtype; FP32 leaves it as it is (float64 stays float64), and so does FP8: see `float8`."""
    if fmt is Format.BF16:
        return x.bfloat16()
    if fmt is Format.FP16:
        return x.half()
    return x


def linear(x_NMI: Tensor, weight_NIO: Tensor, bias_NO: Tensor | None, fmt: Format) -> Tensor:
    """x @ weight + bias for each run, [N, M, O], in the format's dtype."""
    x, weight = lower(x_NMI, fmt), lower(weight_NIO, fmt)
    bias = None if bias_NO is None else lower(bias_NO, fmt).unsqueeze(1)
    if fmt is Format.FP16:
        out: Tensor = _HalfProduct.apply(x, weight)
        return out if bias is None else out + bias
    return torch.bmm(x, weight) if bias is None else torch.baddbmm(bias, x, weight)


class _HalfProduct(torch.autograd.Function):
    """A float16 product with float32 sums, forward and backward; CPUs have no fast one of their own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return matmul(x, weight, torch.float16)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        d_x = matmul(grads[0], weight.transpose(1, 2), torch.float16)
        d_weight = matmul(x.transpose(1, 2), grads[0], torch.float16)
        return d_x, d_weight

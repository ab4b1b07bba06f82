"""Matrix products of stacked runs in float32, bfloat16, float16 or float8, with the rounding that each has.

Mixed precision as autocast does it (Micikevicius et al. 2018): weights stay in float32, operands
and results of matrix products are in the low format, sums are float32, norms, softmax and the
residual stream are float32.

Float8 (E4M3) with delayed scaling (Micikevicius et al. 2022, "FP8 formats for deep learning"): operands are cast after
a scale that brings the largest of the last steps to 448, the largest number of the format, one scale a tensor. Sums,
results and gradients are float32; the gradient goes through the cast as if it were none.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trainwreck.kernels.dtypes import matmul
from trainwreck.kernels.units import product
from trainwreck.models.config import Format, ModelConfig
from trainwreck.models.probe import Probe

LARGEST = 448.0  # of E4M3: 1.75 * 2^8
PAST = 464.0  # half-way from there to what would be next: from here on a value is off by more than rounding
HISTORY = 16  # steps whose largest magnitudes a scale is made of
PRODUCTS = ("qkv", "attention_out", "mlp_in", "mlp_out")


def stored(x: Tensor, fmt: Format) -> Tensor:
    """x as it comes back from being kept in the format, in its own dtype."""
    return lower(x, fmt).to(x.dtype)


def lower(x: Tensor, fmt: Format) -> Tensor:
    """x in the format's dtype; FP32 leaves it as it is (float64 stays float64), and so does FP8: see `Float8`."""
    if fmt is Format.BF16:
        return x.bfloat16()
    if fmt is Format.FP16:
        return x.half()
    return x


def linear(x_NMI: Tensor, weight_NIO: Tensor, bias_NO: Tensor | None, fmt: Format) -> Tensor:
    """x @ weight + bias for each run, [N, M, O], in the format's dtype."""
    x, weight = lower(x_NMI, fmt), lower(weight_NIO, fmt)
    bias = None if bias_NO is None else lower(bias_NO, fmt)
    if fmt is Format.FP16:
        out: Tensor = _HalfProduct.apply(x, weight)
        return out if bias is None else out + bias.unsqueeze(1)
    return product(x, weight, bias)


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


@dataclass
class Float8:
    """The largest magnitudes of both operands of every product in the last steps of N runs, history_NS2H, newest last.

    names: of the matrices, in the order of S. fresh_N: bool, runs whose history goes on; in the others it stays as it
    is, and the scales with it. training: False where nothing is written into a history.
    """

    history_NS2H: Tensor
    names: tuple[str, ...]
    fresh_N: Tensor
    training: bool = True

    def linear(
        self, x_NMI: Tensor, weight_NIO: Tensor, bias_NO: Tensor | None, name: str, probe: Probe | None = None
    ) -> Tensor:
        """x @ weight + bias, [N, M, O], of operands in float8 at the scales that the steps before have led to."""
        history_N2H = self.history_NS2H[:, self.names.index(name)]
        scale_N2 = scales(history_N2H)
        x_scale, weight_scale = scale_N2.unsqueeze(2).unsqueeze(3).unbind(1)
        with torch.no_grad():
            x_scaled, weight_scaled = x_NMI * x_scale, weight_NIO * weight_scale
            x_cast, weight_cast = cast(x_scaled), cast(weight_scaled)
            if probe is not None:
                probe.see_cast(x_scaled, x_cast, PAST)
                probe.see_cast(weight_scaled, weight_cast, PAST)
            if self.training:
                seen_N2 = torch.stack([operand.detach().abs().amax((1, 2)) for operand in (x_NMI, weight_NIO)], 1)
                moved = torch.cat((history_N2H[..., 1:], seen_N2.unsqueeze(2)), 2)
                history_N2H.copy_(torch.where(self.fresh_N.view(-1, 1, 1), moved, history_N2H))
        out: Tensor = _Float8Product.apply(x_NMI, weight_NIO, x_cast, weight_cast, 1 / x_scale, 1 / weight_scale)
        return out if bias_NO is None else out + bias_NO.unsqueeze(1)


def scales(history_N2H: Tensor) -> Tensor:
    """448 over the largest magnitude of a history, [N, 2]; 1 where there is none, or it is not finite."""
    largest = history_N2H.amax(2)
    return torch.where((largest > 0) & torch.isfinite(largest), LARGEST / largest, 1.0)


def cast(x: Tensor) -> Tensor:
    """The nearest numbers of E4M3, in x's dtype; what lies beyond the largest becomes it, and NaN stays NaN.

    The cast of PyTorch alone makes NaN of it in some versions, as the format has no infinity.
    """
    return x.clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn).to(x.dtype)


def products(config: ModelConfig) -> tuple[str, ...]:
    """The matrices whose products are in float8: those of the layers. Embedding and head are not, as is usual."""
    return tuple(f"layer_{i}.{name}" for i in range(config.layers) for name in PRODUCTS)


def empty_history(config: ModelConfig, dtype: torch.dtype = torch.float32) -> Tensor:
    """The history of one run before its first step, [S, 2, H]."""
    return torch.zeros(len(products(config)), 2, HISTORY, dtype=dtype)


class _Float8Product(torch.autograd.Function):
    """A product of cast operands over their scales, with the gradient at the operands before the cast."""

    @staticmethod
    def forward(ctx: Any, *given: Tensor) -> Tensor:
        _, _, x_cast, weight_cast, over_x, over_weight = given
        ctx.save_for_backward(x_cast, weight_cast, over_x, over_weight)
        return torch.bmm(x_cast, weight_cast) * (over_x * over_weight)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        x_cast, weight_cast, over_x, over_weight = ctx.saved_tensors
        d_x = torch.bmm(grads[0], weight_cast.transpose(1, 2)) * over_weight
        d_weight = torch.bmm(x_cast.transpose(1, 2), grads[0]) * over_x
        return d_x, d_weight, None, None, None, None

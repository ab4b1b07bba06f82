"""Norms, GELU and statistics of the residual stream, each by the implementation that has it.

Shapes: N runs, M tokens of a run, D features, F units of an MLP, K numbers of a run.
impl: reference, triton, cpp, or None for the rule of `trainwreck.kernels.selection`. Formats that a kernel has not are
PyTorch's.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from trainwreck.kernels.selection import choose, choose_float32

Product = tuple[Tensor, Tensor | None]  # weight [N, I, O] and bias [N, O] of each run
Scale = tuple[Tensor, Tensor | None]  # gain and shift of each run, [N, D]


def norm(x_NMD: Tensor, eps: float, *, centred: bool, scale: Scale | None = None, impl: str | None = None) -> Tensor:
    """LayerNorm over the last axis, or RMSNorm where it is not centred. scale: gain and shift; none where None.

    Kernels have float32.
    """
    chosen = choose_float32(impl, x_NMD)
    if chosen == "cpp":
        from trainwreck.kernels.units import cpp

        return cpp.norm(x_NMD, eps, centred, *(scale or (None, None)))
    if chosen == "triton":
        from trainwreck.kernels.units import triton

        return triton.norm(x_NMD, eps, centred, *(scale or (None, None)))
    y = (F.layer_norm if centred else F.rms_norm)(x_NMD, x_NMD.shape[-1:], eps=eps)
    return y if scale is None else affine(y, scale)


def affine(y_NMD: Tensor, scale: Scale, impl: str | None = None) -> Tensor:
    """y * gain + shift of each run. C++ has float32, Triton nothing."""
    gain, shift = scale
    if choose_float32(impl, y_NMD) == "cpp":
        from trainwreck.kernels.units import cpp

        return cpp.affine(y_NMD, gain, shift)
    gain = gain.unsqueeze(1)
    return y_NMD * gain if shift is None else torch.addcmul(shift.unsqueeze(1), y_NMD, gain)


def gelu(x_NMF: Tensor, impl: str | None = None) -> tuple[Tensor, Tensor]:
    """GELU in its exact form (Hendrycks and Gimpel 2016), and what has the largest value of each column, [N, ., F].

    The latter is the result itself where no kernel has found it on the way.
    """
    chosen = choose(impl, x_NMF)
    if chosen == "cpp":
        from trainwreck.kernels.units import cpp

        return cpp.gelu(x_NMF)
    if chosen == "triton":
        from trainwreck.kernels.units import triton

        return triton.gelu(x_NMF)
    y = F.gelu(x_NMF)
    return y, y


def gelu_mlp(x_NMI: Tensor, first: Product, last: Product, impl: str | None = None) -> tuple[Tensor, Tensor]:
    """Two products with GELU between them, [N, M, O], and of the hidden units what `gelu` has beside them.

    C++ has float32; the products are PyTorch's everywhere.
    """
    if choose_float32(impl, x_NMI) == "cpp":
        from trainwreck.kernels.units import cpp

        return cpp.gelu_mlp(x_NMI, *first, *last)
    hidden, fired = gelu(product(x_NMI, *first), impl)
    return product(hidden, *last), fired


def product(x_NMI: Tensor, weight_NIO: Tensor, bias_NO: Tensor | None) -> Tensor:
    """x @ weight + bias of each run, [N, M, O]."""
    if bias_NO is None:
        return torch.bmm(x_NMI, weight_NIO)
    return torch.baddbmm(bias_NO.unsqueeze(1), x_NMI, weight_NIO)


def describe(x_NK: Tensor, impl: str | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean, root mean square, largest and least of each row, each [N]. Kernels have float32."""
    chosen = choose_float32(impl, x_NK)
    if chosen == "reference":
        size = torch.linalg.vector_norm(x_NK, dim=1) / x_NK.shape[1] ** 0.5
        return x_NK.mean(1), size, x_NK.amax(1), x_NK.amin(1)
    if chosen == "cpp":
        from trainwreck.kernels.units import cpp

        found = cpp.describe(x_NK)
    else:
        from trainwreck.kernels.units import triton

        found = triton.describe(x_NK)
    mean, size, most, least = found.unbind(1)
    return mean, size, most, least

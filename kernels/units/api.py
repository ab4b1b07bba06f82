"""What stands between the products of a layer: norms, GELU, and a look at the stream."""

import torch
import torch.nn.functional as F
from torch import Tensor

from trainwreck.kernels.cpp import units as cpp
from trainwreck.kernels.selection import CPP_DTYPES

Scale = tuple[Tensor, Tensor | None]  # gain and shift of each run, [N, D]


def norm(x_NMD: Tensor, eps: float, *, centred: bool, scale: Scale | None = None, impl: str | None = None) -> Tensor:
    """LayerNorm over the last axis, or RMSNorm where it is not centred. scale: gain and shift; none where None.

    impl: C++ where it is cpp and x is float32; PyTorch's otherwise.
    """
    if impl == "cpp" and x_NMD.dtype is torch.float32:
        return cpp.norm(x_NMD, eps, centred, *(scale or (None, None)))
    y = (F.layer_norm if centred else F.rms_norm)(x_NMD, x_NMD.shape[-1:], eps=eps)
    return y if scale is None else affine(y, scale)


def affine(y_NMD: Tensor, scale: Scale, impl: str | None = None) -> Tensor:
    """y * gain + shift of each run. impl: as in `norm`."""
    gain, shift = scale
    if impl == "cpp" and y_NMD.dtype is torch.float32:
        return cpp.affine(y_NMD, gain, shift)
    gain = gain.unsqueeze(1)
    return y_NMD * gain if shift is None else torch.addcmul(shift.unsqueeze(1), y_NMD, gain)


def gelu(x_NMF: Tensor, impl: str | None = None) -> tuple[Tensor, Tensor]:
    """GELU in its exact form (Hendrycks and Gimpel 2016), and what has the largest value of each column, [N, ., F].

    The latter is the result itself where no kernel has found it on the way. impl: as in `norm`.
    """
    if impl == "cpp" and x_NMF.dtype in CPP_DTYPES:
        return cpp.gelu(x_NMF)
    y = F.gelu(x_NMF)
    return y, y


def describe(x_NK: Tensor, impl: str | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean, root mean square, largest and least of each row, each [N]. impl: as in `norm`."""
    if impl == "cpp" and x_NK.dtype is torch.float32:
        mean, size, most, least = cpp.describe(x_NK).unbind(1)
        return mean, size, most, least
    size = torch.linalg.vector_norm(x_NK, dim=1) / x_NK.shape[1] ** 0.5
    return x_NK.mean(1), size, x_NK.amax(1), x_NK.amin(1)

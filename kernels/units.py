"""What stands between the products of a layer: norms without gain and shift, GELU, and a look at the stream."""

import torch
import torch.nn.functional as F
from torch import Tensor

from trainwreck.kernels.cpp import layers
from trainwreck.kernels.selection import CPP_DTYPES


def norm(x: Tensor, eps: float, *, centred: bool, impl: str | None = None) -> Tensor:
    """LayerNorm over the last axis, or RMSNorm where it is not centred. impl: C++ where it is cpp and x is float32."""
    if impl == "cpp" and x.dtype is torch.float32:
        return layers.norm(x, eps, centred)
    return (F.layer_norm if centred else F.rms_norm)(x, x.shape[-1:], eps=eps)


def gelu(x_NMF: Tensor, impl: str | None = None) -> tuple[Tensor, Tensor]:
    """GELU in its exact form (Hendrycks and Gimpel 2016), and what has the largest value of each column, [N, ., F].

    The latter is the result itself where no kernel has found it on the way. impl: as in `norm`.
    """
    if impl == "cpp" and x_NMF.dtype in CPP_DTYPES:
        return layers.gelu(x_NMF)
    y = F.gelu(x_NMF)
    return y, y


def describe(x_NK: Tensor, impl: str | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean, root mean square, largest and least of each row, each [N]. impl: as in `norm`."""
    if impl == "cpp" and x_NK.dtype is torch.float32:
        mean, size, most, least = layers.describe(x_NK).unbind(1)
        return mean, size, most, least
    size = torch.linalg.vector_norm(x_NK, dim=1) / x_NK.shape[1] ** 0.5
    return x_NK.mean(1), size, x_NK.amax(1), x_NK.amin(1)

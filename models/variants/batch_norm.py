"""BatchNorm over the tokens of a batch, with the running statistics that evaluation takes in their place.

Ioffe and Szegedy 2015. In a transformer it is a fault: see the scenario `batchnorm_in_transformer`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

MOMENTUM = 0.1  # share of a batch in the running statistics, PyTorch's default


@dataclass
class RunningMoments:
    """Mean and variance of every feature at every norm of N runs, moments_NS2D.

    names: of the norms, in the order of S. training: norms go by the batch, and the moments follow it;
    otherwise norms go by the moments.
    """

    moments_NS2D: Tensor
    names: tuple[str, ...]
    training: bool = True

    def standardise(self, x_NMD: Tensor, name: str, eps: float) -> Tensor:
        """x with mean 0 and variance 1 over the tokens of the batch, or nearly so by the running moments."""
        running_N2D = self.moments_NS2D[:, self.names.index(name)]
        if not self.training:
            mean, variance = running_N2D.unsqueeze(2).unbind(1)
            return (x_NMD - mean) * torch.rsqrt(variance + eps)
        mean = x_NMD.mean(1, keepdim=True)
        centred = x_NMD - mean
        variance = (centred * centred).mean(1, keepdim=True)
        with torch.no_grad():
            m = x_NMD.shape[1]
            seen = torch.cat((mean, variance * (m / max(m - 1, 1))), 1)
            running_N2D.lerp_(seen, MOMENTUM)
        return centred * torch.rsqrt(variance + eps)


def initial_moments(names: tuple[str, ...], width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Mean 0 and variance 1 at every norm of one run, [S, 2, D]."""
    moments = torch.zeros(len(names), 2, width, dtype=dtype)
    moments[:, 1] = 1
    return moments

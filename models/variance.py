"""LayerNorm with denominators that are wrong on purpose; the right one is PyTorch's own."""

import torch
from torch import Tensor


def one_pass(x_NMD: Tensor, eps: float) -> Tensor:
    """The variance as E[x^2] - E[x]^2, which rounding makes negative where the mean is large beside it.

    Sums of squares lose (mean / std)^2 of their precision (Chan, Golub and LeVeque 1983); nothing guards
    the root, so that a variance under -eps is NaN.
    """
    mean = x_NMD.mean(-1, keepdim=True)
    variance = (x_NMD * x_NMD).mean(-1, keepdim=True) - mean * mean
    return (x_NMD - mean) / torch.sqrt(variance + eps)


def eps_outside(x_NMD: Tensor, eps: float) -> Tensor:
    """eps added to the standard deviation: a constant row is 0 forward and 0 / 0 = NaN backward."""
    centred = x_NMD - x_NMD.mean(-1, keepdim=True)
    return centred / (torch.sqrt((centred * centred).mean(-1, keepdim=True)) + eps)

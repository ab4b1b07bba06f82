"""LayerNorm whose variance is E[x^2] - E[x]^2."""

from torch import Tensor


def one_pass(x_NMD: Tensor, eps: float) -> Tensor:
    """x over the root of a variance that rounding makes negative where the mean is large beside it.

    Sums of squares lose (mean / std)^2 of their precision (Chan, Golub and LeVeque 1983); nothing guards
    the root, so that a variance under -eps is NaN.
    """
    mean = x_NMD.mean(-1, keepdim=True)
    variance = (x_NMD * x_NMD).mean(-1, keepdim=True) - mean * mean
    return (x_NMD - mean) / (variance + eps).sqrt()

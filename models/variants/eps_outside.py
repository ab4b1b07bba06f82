"""LayerNorm with eps outside of the root."""

from torch import Tensor


def eps_outside(x_NMD: Tensor, eps: float) -> Tensor:
    """eps added to the standard deviation: a constant row is 0 forward and 0 / 0 = NaN backward."""
    centred = x_NMD - x_NMD.mean(-1, keepdim=True)
    return centred / ((centred * centred).mean(-1, keepdim=True).sqrt() + eps)

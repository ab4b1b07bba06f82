"""Tables of rotary position embedding (Su et al. 2021); `trainwreck.kernels.rotary` applies them.

A pair of features is one complex number, rotated by exp(i * position * frequency).
"""

import torch
from torch import Tensor


def rotary_table(
    context: int,
    head_width: int,
    base: float,
    dtype: torch.dtype = torch.float32,
    *,
    offset: int = 0,
    stretch: float = 1.0,
    angles: torch.dtype = torch.float64,
) -> Tensor:
    """exp(i * (position + offset) / stretch * base ** (-2 j / head_width)), complex, [T, K/2].

    stretch is the factor of position interpolation (Chen et al. 2023). angles: the format in which positions,
    frequencies and their products are rounded before sine and cosine are taken.
    """
    exponent = torch.arange(0, head_width, 2, dtype=torch.float64) / head_width
    position = (torch.arange(context, dtype=torch.float64) + offset) / stretch
    angle = torch.outer(position.to(angles), (base**-exponent).to(angles)).double()
    table = torch.polar(torch.ones_like(angle), angle)
    return table.to(torch.complex128 if dtype == torch.float64 else torch.complex64)

"""Faulty on purpose: the output so far is kept in bfloat16, and cut off where it should be rounded.

Each block of keys takes up to 2**-7 of the output's magnitude and never gives any, so errors don't
cancel: outputs are too small, and so is sum(out * d_out), which softmax's gradient subtracts.

Stands for what Qiu and Yao (2025, "Why Low-Precision Transformer Training Fails: An Analysis on Flash
Attention") trace loss explosions to: bfloat16 sums of the unnormalised output whose rounding goes one
way, and the same error in each step's sum(out * d_out). There the bias comes from the data: several
probabilities of exactly 1 in a row, and values of one sign. Simplified: here it comes from the
conversion, the two upper bytes of a float32, as in casts written by hand; so it needs no such data.
"""

from functools import partial

import torch
from torch import Tensor

from trainwreck.kernels.attention import online

BLOCK = 16  # keys between two conversions
UPPER = -65536  # the upper two bytes of a word


def cut(x: Tensor) -> Tensor:
    """x with the precision of bfloat16, rounded towards zero, in its own dtype."""
    return (x.float().view(torch.int32) & UPPER).view(torch.float32).to(x.dtype)


attention = partial(online.attention, shift=lambda top: top, keep=cut, block=BLOCK)

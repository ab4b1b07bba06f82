"""Faulty on purpose: the kernels with their output so far cut off to bfloat16; twin of `biased_rounding`."""

import triton
import triton.language as tl

from trainwreck.kernels.attention.triton.launch import RIGHT
from trainwreck.kernels.attention.variants.biased_rounding import BLOCK


@triton.jit
def cut_off(b_acc, b_a, b_p, b_v, PRECISION: tl.constexpr):
    """The output so far and what this tile adds, with the two lower bytes of each float32 gone."""
    b_acc = tl.dot(b_p.to(b_v.dtype), b_v, b_acc * b_a[:, None], input_precision=PRECISION)
    return (b_acc.to(tl.uint32, bitcast=True) & 0xFFFF0000).to(tl.float32, bitcast=True)


RECIPE = RIGHT._replace(accumulate=cut_off, step=BLOCK)

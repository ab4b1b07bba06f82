"""Faulty on purpose: the kernels with scores in float16 before their scale; twin of `fp16_scores`.

The sums inside a product are float32, as on tensor cores; it is the result that has to fit float16.
"""

import triton
import triton.language as tl

from trainwreck.kernels.attention.triton.launch import RIGHT


@triton.jit
def half_scores(b_a, b_b, PRECISION: tl.constexpr):
    """Scores rounded to float16, inf past 65504, then to the dtype of the inputs."""
    b_s = tl.dot(b_a.to(tl.float16), b_b.to(tl.float16)).to(tl.float16)
    return b_s.to(b_a.dtype).to(tl.float32)


@triton.jit
def half_grade(b_ds, scale, DTYPE: tl.constexpr):
    """Gradients of the scores before their scale, in float16 as well."""
    return (b_ds * scale).to(DTYPE).to(tl.float16)


@triton.jit
def half_finish(b_dx, scale):
    """The scale is in already; the product is a float16 one."""
    return b_dx.to(tl.float16).to(tl.float32)


# Masked scores take part: they are finite, so a row whose own scores are all -inf attends to them.
RECIPE = RIGHT._replace(scores=half_scores, grade=half_grade, finish=half_finish, tabled=True, halves=True)

"""The two halves of AdamW, passes over the flat buffers of N runs in float32.

Shapes: N runs, P parameters of a run, S segments.
"""

from functools import cache

import torch
from torch import Tensor

from trainwreck.kernels.cpp.build import call
from trainwreck.kernels.norms.segments import Segments


def average(first_NP: Tensor, second_NP: Tensor, grads_NP: Tensor, first_N: Tensor, second_N: Tensor) -> None:
    """Move both moments of Adam in place by the shares first and second: 1 - beta1 and 1 - beta2."""
    assert first_NP.is_contiguous(), "moments are written where they are"
    assert second_NP.is_contiguous(), "moments are written where they are"
    n, p = grads_NP.shape
    shares = first_N.contiguous(), second_N.contiguous()
    call("adam_average", grads_NP.contiguous(), n, p, *shares, first_NP, second_NP)


def update(first_NP: Tensor, second_NP: Tensor, factor_NP: Tensor | None, eps_N: Tensor, rate_N: Tensor) -> Tensor:
    """rate * factor * m / (sqrt(v) + eps), [N, P]. factor: 1 where None."""
    n, p = first_NP.shape
    first_NP, second_NP = first_NP.contiguous(), second_NP.contiguous()
    moved = torch.empty_like(first_NP)
    factor = None if factor_NP is None else factor_NP.contiguous()
    call("adam_update", first_NP, second_NP, n, p, factor, eps_N.contiguous(), rate_N.contiguous(), moved)
    return moved


@cache
def bounds(segments: Segments) -> Tensor:
    """Starts and stops as kernels read them, int64 [S, 2]."""
    return torch.tensor(segments, dtype=torch.int64)

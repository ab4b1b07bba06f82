"""What a step logs of a flat buffer of parameters, gradients or updates, segment by segment.

Shapes: N runs, P parameters of a run, S segments.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from trainwreck.kernels.norms import reference
from trainwreck.kernels.norms.segments import Segments, SegmentStatistics
from trainwreck.kernels.selection import choose, choose_float32

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def segment_statistics(
    flat_NP: Tensor, segments: Segments, *, largest: bool = False, counts: bool = False, impl: str | None = None
) -> SegmentStatistics:
    """Norm, and where asked for maximum, and counts of what is not finite and what is 0; on a GPU in one pass.

    flat: float16, bfloat16, float32 or float64, [N, P]; sums are float32 (float64 for float64).
    segments: rising ranges that cover the P columns. impl: reference, triton, cpp, or None for the rule of
    `trainwreck.kernels.selection`.
    The triton sums are taken in an order that shapes alone decide, so equal input gives equal bits.
    Raises ValueError on arguments that don't fit, before any work.
    """
    check_arguments(flat_NP, segments)
    chosen = choose(impl, flat_NP)
    if chosen == "cpp":
        from trainwreck.kernels.norms import cpp

        return cpp.segment_statistics(flat_NP, segments, largest, counts)
    if chosen == "triton":
        from trainwreck.kernels.norms import triton

        with torch.cuda.device_of(flat_NP):
            return triton.segment_statistics(flat_NP, segments, largest, counts)
    return reference.segment_statistics(flat_NP, segments, largest, counts)


def moment_ratios(
    grads_NP: Tensor, second_NP: Tensor, least_N: Tensor, segments: Segments, impl: str | None = None
) -> Tensor:
    """Mean of g^2 / max(v, least) in each segment, [N, S]; v: second moments, least: of each run. Kernels have float32.

    segments, impl: as in `segment_statistics`.
    """
    chosen = choose_float32(impl, grads_NP)
    if chosen == "cpp":
        from trainwreck.kernels.norms import cpp

        return cpp.moment_ratios(grads_NP, second_NP, least_N, segments)
    if chosen == "triton":
        from trainwreck.kernels.norms import triton

        with torch.cuda.device_of(grads_NP):
            return triton.moment_ratios(grads_NP, second_NP, least_N, segments)
    return reference.moment_ratios(grads_NP, second_NP, least_N, segments)


def check_arguments(flat: Tensor, segments: Sequence[tuple[int, int]]) -> None:
    """One line for the first argument that doesn't fit."""
    if flat.dtype not in DTYPES:
        raise ValueError(f"flat: dtype {flat.dtype} is not allowed; allowed: {DTYPES}")
    if flat.dim() != 2 or 0 in flat.shape:
        raise ValueError(f"flat: shape {tuple(flat.shape)} is not allowed; allowed: [N, P], both 1 or more")
    at = 0
    for start, stop in segments:
        if start != at or stop <= start:
            raise ValueError(
                f"segments: ({start}, {stop}) is not allowed; allowed: a range from {at} with an element or more"
            )
        at = stop
    if at != flat.shape[1]:
        raise ValueError(f"segments: an end at {at} is not allowed; allowed: {flat.shape[1]}, the width of flat")

"""Statistics of segments in C++, all in one pass."""

import torch
from torch import Tensor

from trainwreck.kernels.cpp.build import call
from trainwreck.kernels.cpp.weights import bounds
from trainwreck.kernels.dtypes import widen
from trainwreck.kernels.norms.segments import Segments, SegmentStatistics


def segment_statistics(flat_NP: Tensor, segments: Segments, largest: bool, counts: bool) -> SegmentStatistics:
    """See `trainwreck.kernels.norms.segment_statistics`."""
    flat = widen(flat_NP).contiguous()
    n, p = flat.shape
    cut = bounds(segments)
    norms = flat.new_empty(n, len(segments))
    tops = torch.empty_like(norms) if largest else None
    found = torch.empty(2, n, dtype=torch.int64) if counts else None
    nonfinite, zeros = (None, None) if found is None else found
    call("segment_statistics", flat, n, p, cut, len(segments), norms, tops, nonfinite, zeros)
    return SegmentStatistics(norms, tops, nonfinite, zeros)


def moment_ratios(grads_NP: Tensor, second_NP: Tensor, least_N: Tensor, segments: Segments) -> Tensor:
    """See `trainwreck.kernels.norms.moment_ratios`."""
    n, p = grads_NP.shape
    means = grads_NP.new_empty(n, len(segments))
    grads, second, least = (x.contiguous() for x in (grads_NP, second_NP, least_N))
    call("moment_ratios", grads, second, n, p, bounds(segments), len(segments), least, means)
    return means

"""Segment by segment with PyTorch's own reductions: the definition of right."""

import numpy as np
import torch
from torch import Tensor

from trainwreck.kernels.dtypes import widen
from trainwreck.kernels.norms.segments import Segments, SegmentStatistics


def segment_statistics(flat_NP: Tensor, segments: Segments, largest: bool, counts: bool) -> SegmentStatistics:
    """See `trainwreck.kernels.norms.segment_statistics`."""
    flat = widen(flat_NP)
    norms = torch.stack([torch.linalg.vector_norm(flat[:, a:b], dim=1) for a, b in segments], 1)
    return SegmentStatistics(
        norms,
        largest_magnitudes(flat, segments) if largest else None,
        _nonfinite(flat, norms) if counts else None,
        count_zeros(flat) if counts else None,
    )


def _nonfinite(flat_NP: Tensor, norms_NS: Tensor) -> Tensor:
    """`count_nonfinite`, without a pass where the norms say that all are finite; a GPU would have to be waited for."""
    if flat_NP.device.type == "cpu" and np.isfinite(norms_NS.detach().numpy()).all():
        return flat_NP.new_zeros(len(flat_NP))
    return count_nonfinite(flat_NP)


def largest_magnitudes(flat_NP: Tensor, segments: Segments) -> Tensor:
    """Largest |x| of each segment, [N, S]; PyTorch's inf-norm and aminmax are ten times slower."""
    top = torch.stack([flat_NP[:, a:b].amax(1) for a, b in segments], 1)
    bottom = torch.stack([flat_NP[:, a:b].amin(1) for a, b in segments], 1)
    return torch.maximum(top, -bottom).abs_()  # of zeros the sign is lost


def count_nonfinite(flat_NP: Tensor) -> Tensor:
    """Elements that are NaN or infinite, [N]; x - x is 0 or NaN."""
    apart = flat_NP - flat_NP
    return torch.ne(apart, apart, out=apart).sum(1)


def count_zeros(flat_NP: Tensor) -> Tensor:
    """Elements that are 0, [N]; a bool's sum is slow."""
    return torch.eq(flat_NP, 0, out=torch.empty_like(flat_NP)).sum(1)


def moment_ratios(grads_NP: Tensor, second_NP: Tensor, least_N: Tensor, segments: Segments) -> Tensor:
    """See `trainwreck.kernels.norms.moment_ratios`."""
    ratio = second_NP.clamp(min=least_N.unsqueeze(1))
    torch.div(grads_NP, ratio, out=ratio).mul_(grads_NP)
    return torch.stack([ratio[:, start:stop].mean(1) for start, stop in segments], 1)

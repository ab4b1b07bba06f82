"""The segments of a flat buffer, and what is measured of them. N runs, S segments."""

from typing import NamedTuple

from torch import Tensor

Segments = tuple[tuple[int, int], ...]  # (start, stop) of each, in elements


class SegmentStatistics(NamedTuple):
    """Of each segment; None where it was not asked for. In the accumulation dtype.

    norm_NS: Euclidean. largest_NS: largest magnitude; NaN where there is a NaN. nonfinite_N: how many
    elements of the whole buffer are NaN or infinite. zeros_N: how many of it are 0.
    """

    norm_NS: Tensor
    largest_NS: Tensor | None = None
    nonfinite_N: Tensor | None = None
    zeros_N: Tensor | None = None

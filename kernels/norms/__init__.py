"""Norms, maxima and counts over the segments of flat parameter buffers."""

from trainwreck.kernels.norms.api import moment_ratios, segment_statistics
from trainwreck.kernels.norms.segments import Segments, SegmentStatistics

__all__ = ["SegmentStatistics", "Segments", "moment_ratios", "segment_statistics"]

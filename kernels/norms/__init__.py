"""Norms, maxima and counts over the segments of flat parameter buffers."""

from trainwreck.kernels.norms.api import Segments, SegmentStatistics, segment_statistics

__all__ = ["SegmentStatistics", "Segments", "segment_statistics"]

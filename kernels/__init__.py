"""Attention kernels and the counter-based random streams that they share."""

"""Kernels with their references, the rule that chooses between the two, and counter-based random streams."""

"""Splitting heads and rotating queries and keys, in one pass."""

from trainwreck.kernels.rotary.api import split_and_rotate

__all__ = ["split_and_rotate"]

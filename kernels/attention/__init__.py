"""Attention over stacked runs: `attention` is the entry, `reference` the definition of right."""

from trainwreck.kernels.attention.api import (
    MASKED,
    VARIANTS,
    AttentionStats,
    attention,
    load_variant,
    mask_bias,
)

__all__ = ["MASKED", "VARIANTS", "AttentionStats", "attention", "load_variant", "mask_bias"]

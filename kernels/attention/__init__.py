"""Attention over stacked runs: `attention` is the entry, `reference` the definition of right."""

from trainwreck.kernels.attention.api import (
    MASKED,
    VARIANTS,
    AttentionStats,
    attention,
    document_bias,
    load_variant,
    mask_bias,
    reduce,
)

__all__ = ["MASKED", "VARIANTS", "AttentionStats", "attention", "document_bias", "load_variant", "mask_bias", "reduce"]

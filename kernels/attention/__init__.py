"""Attention over stacked runs: `attention` is the entry, `reference` the definition of right."""

from trainwreck.kernels.attention.api import VARIANTS, attention, load_variant, rotary_attention
from trainwreck.kernels.attention.dropout import Dropout
from trainwreck.kernels.attention.mask import MASKED, Mask, document_bias, mask_bias
from trainwreck.kernels.attention.statistics import AttentionStats, reduce

__all__ = [
    "MASKED",
    "VARIANTS",
    "AttentionStats",
    "Dropout",
    "Mask",
    "attention",
    "document_bias",
    "load_variant",
    "mask_bias",
    "reduce",
    "rotary_attention",
]

"""Tensors that steer the model, one a run: what a fault may replace.

Shapes: N runs, T positions, S of the keys, K head width, L layers; 2 are attention and MLP of a layer.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainwreck.kernels.attention import Mask
from trainwreck.models.config import ModelConfig, Positions
from trainwreck.models.rotary import rotary_table


@dataclass
class Tables:
    """What attention uses in every run, and what faults of `trainwreck.models.variants` add.

    allowed_NTS: bool, keys a query may see. documents_N: bool, keys of other documents and padding
    are masked. scale_N: float, multiplies q k'. rotary_q_NTK, rotary_k_NTK: complex, [N, T, K/2].
    branch_gain_NL2: float, factor on what attention and MLP of each layer add; shortcut_gain_NL2: on what
    goes past them; logit_gain_N: on the output logits. None is 1 for all.
    bare_NL2: bool, attention and MLP of each layer whose norm leaves its input as it is; None is none.
    noise_N: float, standard deviation of noise in the residual stream after each layer; None is none.
    Of the cache that tokens are written from (`trainwreck.models.decoding`), which has a slot a position:
    cache_slots_NT: int64, the slot that each position is kept in; None is its own. cache_places_NT: int64, the position
    that each one is rotated as; None is its own. cache_rows_NS: int64, how many rows further on the row is whose states
    a row reads in each slot; None is 0.
    leaky: some run lets a query see the future, another document or padding.
    causal: in every run the mask is the causal one and documents are kept apart, so a kernel need not
    look at the tables. What the device holds isn't asked: who builds the tables has to say it.
    """

    allowed_NTS: Tensor
    documents_N: Tensor
    scale_N: Tensor
    rotary_q_NTK: Tensor
    rotary_k_NTK: Tensor
    branch_gain_NL2: Tensor | None = None
    shortcut_gain_NL2: Tensor | None = None
    logit_gain_N: Tensor | None = None
    bare_NL2: Tensor | None = None
    noise_N: Tensor | None = None
    cache_slots_NT: Tensor | None = None
    cache_places_NT: Tensor | None = None
    cache_rows_NS: Tensor | None = None
    leaky: bool = False
    causal: bool = False

    def mask(self, documents_NBT: Tensor) -> Mask:
        """What attention masks in a batch of these documents."""
        if self.causal:
            return Mask(documents_NBT, leaky=self.leaky)
        # Where nothing leaks, all runs keep to their documents.
        return Mask(documents_NBT, self.allowed_NTS, self.documents_N if self.leaky else None, self.leaky)


def healthy_tables(config: ModelConfig, runs: int, dtype: torch.dtype = torch.float32) -> Tables:
    """Causal mask or none, document mask, 1/sqrt(K) and matching rotary tables for every run.

    With learned positions the rotation is none: a factor of 1, which changes no bit.
    """
    t = config.context
    allowed = torch.ones(t, t, dtype=torch.bool)
    allowed = allowed.tril() if config.causal else allowed
    table = rotary_table(t, config.head_width, config.rope_base, dtype)
    rotary = (table if config.positions is Positions.ROTARY else torch.ones_like(table)).expand(runs, -1, -1)
    return Tables(
        allowed_NTS=allowed.expand(runs, t, t),
        documents_N=torch.ones(runs, dtype=torch.bool),
        scale_N=torch.full((runs,), config.attention_scale, dtype=dtype),
        rotary_q_NTK=rotary,
        rotary_k_NTK=rotary,
    )

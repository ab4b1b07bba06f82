"""Rotary angles are formed in bfloat16: far into a row, neighbours have one position.

Failure: The whole model was cast to bfloat16, and with it the positions and frequencies that rotary angles are made of.
    Up to position 256 little is seen; beyond it attention by distance fails, and the loss of far positions rises.
Mechanism: bfloat16 has 8 bits of precision, so that positions over 256 are multiples of 2, those over 512 of 4, and the
    product of position p and frequency f is off by up to p f / 512 radians. The fastest pair, f = 1, is the one that
    tells a distance of 3 from one of 4; past 256 its angles are off by 1.
Injection: From the onset on positions, frequencies and their products are rounded to bfloat16, for queries and keys
    alike. Sine and cosine are taken in float32, as is all else.
Cure: The angles in float32.
Realism: Stands for `model.to(bfloat16)` with `inv_freq` among the buffers, and for caches of sines that are built
    within a mixed-precision context. The rows are the longest of the catalogue, 384 tokens, and short documents are
    packed into them, so that no distance is large. At thousands of positions slower pairs are off as well.
References: huggingface/transformers#29285 (RoPE in bfloat16); huggingface/transformers#29496; EleutherAI/gpt-neox#1003.
"""

import dataclasses
from typing import TYPE_CHECKING

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@register
class RopeLowPrecision(Scenario):
    """Rotary angles rounded to bfloat16."""

    id = "rope_low_precision"
    family = Family.ATTENTION
    plans = 3
    kinds = (FaultKind.TENSOR,)
    sources = (citations.TRANSFORMERS_29285, citations.GPT_NEOX_1003)
    telling = "position_loss"
    cure_after = 10

    def base(self, setup: Setup) -> Setup:
        return bases.echo_long_rows(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        requirements.rotary(setup)
        return [TableEdit(rounded)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        by_position, usual = run["position_loss"], healthy["position_loss"]
        soon, late = slice(onset, onset + 20), slice(-75, None)
        return {
            "at the onset the loss rises at positions from 240 on, and not before": (
                shapes.worse_beyond_position(by_position[soon], usual[soon], position=5, margin=0.2)
            ),
            "it is still so at the end": (
                shapes.worse_beyond_position(by_position[late], usual[late], position=5, margin=0.15)
            ),
            "the loss plateaus above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.05),
        }


def rounded(tables: "Tables", setup: Setup) -> "Tables":
    """Rotary tables whose angles were formed in bfloat16."""
    import torch

    from trainwreck.models.rotary import rotary_table

    model = setup.model
    table = rotary_table(model.context, model.head_width, model.rope_base, angles=torch.bfloat16)[None]
    return dataclasses.replace(tables, rotary_q_NTK=table, rotary_k_NTK=table)

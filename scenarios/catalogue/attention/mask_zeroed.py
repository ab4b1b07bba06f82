"""A zeroed mask wipes the scores: every position attends to all it may see alike.

Failure: A mask of zeros is multiplied into the attention scores where one of zeros and -inf should
    have been added. What a token looks at no longer depends on what it is.
Mechanism: softmax(0 * q k' / sqrt(d)) = 1 / n for each of the n allowed keys, so the entropy of
    attention is at its maximum ln n, the same in every head, and q and k get no gradient.
Injection: From the onset on, the factor on q k' is 0 in every layer. The causal fill that follows is
    still right.
Cure: The right mask, a few steps after the onset.
Realism: Stands for masks of the wrong convention (multiplied, additive, boolean) handed between
    libraries. Simplified: every layer is hit.
References: Reading the Curves (token loss by position: "attention mask may be zeroed or malformed").
"""

import dataclasses
from typing import TYPE_CHECKING

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@register
class MaskZeroed(Scenario):
    """Scores zeroed: uniform attention."""

    id = "mask_zeroed"
    family = Family.ATTENTION
    kinds = (FaultKind.TENSOR,)
    sources = (citations.READING_CURVES,)
    telling = "head_entropy"
    cure_after = 15

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [TableEdit(wipe_scores)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        heads, late = run["head_entropy"][onset:], slice(-100, None)
        spread = heads.max(1) - heads.min(1)
        loss, usual = (trace["loss"][onset : onset + 5].mean() for trace in (run, healthy))
        flat = shapes.flat_over_position(run["age_loss"][late], healthy["age_loss"][late], share=0.75)
        return {
            "from the onset on all heads have one and the same entropy": shapes.pinned_at(spread, 0.0, tolerance=1e-3),
            "the loss jumps at the onset": loss > usual + 0.2,
            "it plateaus above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.2),
            "it falls less with the age of a document than the twin's": flat,
        }


def wipe_scores(tables: "Tables", setup: Setup) -> "Tables":
    """q k' times zero."""
    import torch

    return dataclasses.replace(tables, scale_N=torch.zeros_like(tables.scale_N))

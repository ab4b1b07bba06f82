"""Rotary positions are applied to the keys and not to the queries.

Failure: One of the two rotations is lost in a refactor. A score then depends on where the key stands
    in the row instead of how far it is away.
Mechanism: Right: (R_t q)' (R_s k) = q' R_(s-t) k, a function of the distance. Wrong: q' R_s k, a
    function of the key's absolute position, which means something else in every row.
Injection: From the onset on, the queries' rotary table is the identity in every layer.
Cure: Rotation on both sides, a few steps after the onset.
Realism: Stands for cached keys rotated at write time while queries skip it. Simplified: all layers.
References: Debugging Training Instability (rotary encodings incorrectly applied); Su et al. 2021.
"""

import dataclasses
from typing import TYPE_CHECKING

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@register
class RopeOnKeysOnly(Scenario):
    """Queries are not rotated."""

    id = "rope_on_keys_only"
    family = Family.ATTENTION
    kinds = (FaultKind.TENSOR,)
    sources = (citations.INSTABILITY,)
    telling = "age_loss"
    cure_after = 8

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        requirements.rotary(setup)
        return [TableEdit(unrotated_queries)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(-100, None)
        flat = shapes.flat_over_position(run["age_loss"][late], healthy["age_loss"][late], share=0.75)
        return {
            "the loss jumps at the onset": shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.2),
            "it plateaus above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.2),
            "it falls less with the age of a document than the twin's": flat,
        }


def unrotated_queries(tables: "Tables", setup: Setup) -> "Tables":
    """The identity in place of the queries' rotation."""
    import torch

    return dataclasses.replace(tables, rotary_q_NTK=torch.ones_like(tables.rotary_q_NTK))

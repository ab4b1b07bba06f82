"""Positions are clipped at a maximum: past it, all tokens stand in one place.

Failure: A table of positions is shorter than the row, and the index is clamped to its end. Up to there
    everything is right; beyond it the model can't tell near from far.
Mechanism: With p(t) = min(t, limit) any two tokens beyond the limit have distance p(s) - p(t) = 0, so
    the rotation R_(p(s) - p(t)) is the identity between them and their order is lost.
Injection: From the onset on, queries and keys are rotated by the clipped positions.
Cure: The whole table, a few steps after the onset.
Realism: Stands for a context extended past max_position_embeddings whose lookup clamps, as gathers do
    on some devices where others raise.
References: Reading the Curves (token loss by position); Debugging Training Instability (positions
    incorrectly applied); Press et al. 2022; Su et al. 2021.
"""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@dataclass(kw_only=True)
class Limit(Knobs):
    """The last position there is, as a share of the row."""

    share: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"fault.share: {self.share} is not allowed; allowed: 0 to 1")


@register
class PositionTruncated(Scenario):
    """Positions clipped at a maximum."""

    id = "position_truncated"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.READING_CURVES, citations.INSTABILITY)
    telling = "position_loss"
    severities = {
        Severity.SUBTLE: Limit(share=0.75),
        Severity.CLEAR: Limit(share=0.5),
        Severity.SEVERE: Limit(share=0.375),
    }
    cure_after = 8

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Limit, setup: Setup) -> list[Change]:
        def clip(tables: "Tables", setup: Setup) -> "Tables":
            import torch

            t = torch.arange(setup.model.context).clamp(max=round(knobs.share * setup.model.context))
            return dataclasses.replace(
                tables, rotary_q_NTK=tables.rotary_q_NTK[:, t], rotary_k_NTK=tables.rotary_k_NTK[:, t]
            )

        return [TableEdit(clip)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        soon = slice(onset, onset + 12)  # later on, what is learnt beyond the limit tells before it as well
        profile, usual, last = run["position_loss"][soon], healthy["position_loss"][soon], len(run) - 50
        return {
            "loss by position is the twin's up to some position and far above it beyond": (
                any(shapes.worse_beyond_position(profile, usual, place, margin=0.4) for place in range(1, 7))
            ),
            "the loss ends above the twin's": (
                shapes.steps_above(run["loss"], healthy["loss"], last, margin=0.05, last=50)
            ),
        }

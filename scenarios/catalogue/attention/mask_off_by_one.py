"""The causal mask is shifted by one: a position can't see itself, or sees one ahead.

Failure: An index error moves the diagonal of the causal mask. One way a token loses sight of itself,
    and the first one of a document of everything; the other way it sees the very token it should predict.
Mechanism: Position t may attend to s <= t + k. Right is k = 0. With k = 1 the target x_(t+1) is
    visible; with k = -1 attention can't copy what stands at t and leans on the residual path.
Injection: From the onset on, the mask's diagonal is shifted by `shift`. A query without an
    allowed key attends uniformly to what one mask alone hides, this one or that of documents.
Cure: The right diagonal, a few steps after the onset.
Realism: Stands for `tril(diagonal=...)` mistakes and inclusive against exclusive ends. Simplified:
    all layers shift. The other direction (`fault.shift=-1`) is milder: a model whose heads don't lean
    on the own position hardly notices, others jump by a nat and are back within thirty steps.
References: Debugging Training Instability (off-by-one); Reading the Curves (malformed masks).
"""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainwreck.evaluation.dataset.schema import Harm
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@dataclass(kw_only=True)
class Shift(Knobs):
    """How far the diagonal moves: 1 lets a position see one ahead, -1 hides it from itself."""

    shift: int = 1


@register
class MaskOffByOne(Scenario):
    """Diagonal of the causal mask shifted by one."""

    id = "mask_off_by_one"
    family = Family.ATTENTION
    kinds = (FaultKind.TENSOR,)
    sources = (citations.INSTABILITY, citations.READING_CURVES)
    telling = "attention_mass_future"
    harm = Harm.BELOW
    knobs = Shift()
    cure_after = 8

    def fault(self, knobs: Shift, setup: Setup) -> list[Change]:
        def move(tables: "Tables", setup: Setup) -> "Tables":
            import torch

            allowed = torch.ones_like(tables.allowed_NTS).tril(knobs.shift)
            return dataclasses.replace(tables, allowed_NTS=allowed)

        return [TableEdit(move)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        future, late = run["attention_mass_future"].max(1), slice(-40, None)
        return {
            "attention on the future is 0 before the onset": bool((future[:onset] == 0).all()),
            "and is over 0 in some layer at every step from the onset on": future[onset:].min() > 0.01,
            "attention reaches less far than the twin's": (
                run["attention_distance"][late].mean() < healthy["attention_distance"][late].mean()
            ),
            "the loss falls far under the twin's": shapes.falls_under(run["loss"], healthy["loss"], margin=0.5),
        }

"""Padding is attended to and scored.

Failure: Rows end with padding, and neither attention nor the loss masks it: positions of padding attend to the
    document and count as targets. No token of the document sees padding, which comes last. The training loss looks
    better than it is.
Mechanism: After its first, padding follows padding with certainty and costs nothing, so the mean falls
    to (1 - s) times the true loss for a share s of padding. And the first one has to be foreseen: the
    model gives up -ln(1 - h) nats at each real token, h the chance that the document ends here.
Injection: From step 0 attention does not keep padding apart from the document, and the weight of padding in the loss
    is 1. In the twin padding sees padding alone; what lies on it is logged as 0, as under every mask that is shut.
Cure: Padding masked and unscored, after six steps. After twenty it is late: some runs have learnt the
    ends of rows first, and end 0.2 nats above the twin.
Realism: Rows of 32 hold one document of 8 to 24 tokens each. Stands for a pad id that is not the loss's
    ignore index, or a collator without an attention mask.
References: Debugging Training Instability (data checks; "unit-test your batches").
"""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@register
class PaddingAttended(Scenario):
    """Padding seen by attention and by the loss."""

    id = "padding_attended"
    family = Family.ATTENTION
    kinds = (FaultKind.TENSOR, FaultKind.DATA)
    sources = (citations.INSTABILITY,)
    telling = "attention_mass_padding"
    onset = None
    cure_after = 6
    tolerance = 0.11  # 16 healthy runs of this base end 0.102 nats apart

    def base(self, setup: Setup) -> Setup:
        return replaced(bases.recall(setup), data__padded=True)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [TableEdit(unmask), DataTransform(count_padding, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        return {
            "over 0.5 % of some layer's attention lies on padding, that of padding itself counted": (
                run["attention_mass_padding"][-75:].max(1).mean() > 0.005
            ),
            "the training loss is far under the validation loss": (
                not shapes.above_validation(run["loss"], run["validation_loss"], margin=-0.3)
            ),
            "the validation loss ends above the twin's": run.final_loss() > healthy.final_loss() + 0.05,
        }


def unmask(tables: "Tables", setup: Setup) -> "Tables":
    """Rows hold one document, so there is nothing else to see than padding."""
    import torch

    return dataclasses.replace(tables, documents_N=torch.zeros(1, dtype=torch.bool))


def count_padding(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
    """Every target of a row counts."""
    return dataclasses.replace(batch, weights=np.ones_like(batch.weights))

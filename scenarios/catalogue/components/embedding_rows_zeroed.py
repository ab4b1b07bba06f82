"""A share of the embedding table's rows is zero: those tokens all look alike.

Failure: Some tokens reach the model as the zero vector. What follows them can only be guessed from
    what stood before; all other tokens are read as ever.
Mechanism: e(x) = 0 for x in the lost rows S. The first norm makes a constant of it, so the model
    sees one and the same token for all of S, and p(next | x) becomes the mean over S. No gradient
    reaches those rows, since their weights don't compute.
Injection: From the onset on, the rows of a share of the ids, drawn once and for all, compute as zeros.
Cure: The trained rows compute again, a few steps after the onset.
Realism: Stands for a shard of a table split over vocabulary that was never loaded, and for tables
    resized without a copy. Loss by token, which would show it best, is not on record.
References: Debugging Training Instability (data and tokens); Debugging training (weights); Shoeybi et
    al. 2019 (vocabulary-parallel embedding).
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.kernels.random import generator
from trainwreck.models.parameters import Layout
from trainwreck.models.parametrization import Parametrization
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, ParametrizationEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Rows(Knobs):
    """Share of the table's rows that is lost."""

    share: float = 0.25

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"fault.share: {self.share} is not allowed; allowed: over 0 to 1")


@register
class EmbeddingRowsZeroed(Scenario):
    """Rows of the token table are zero."""

    id = "embedding_rows_zeroed"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.INSTABILITY, citations.DEBUGGING)
    telling = "layer_weight_norm"
    severities = {
        Severity.SUBTLE: Rows(share=0.1875),
        Severity.CLEAR: Rows(share=0.25),
        Severity.SEVERE: Rows(share=0.5),
    }
    cure_after = 8

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Rows, setup: Setup) -> list[Change]:
        import torch

        ids = generator(0, f"fault/{self.id}").permutation(setup.model.vocab_size)
        lost = torch.from_numpy(ids[: round(knobs.share * len(ids))])

        def wipe(parametrization: Parametrization, plan: Layout) -> Parametrization:
            return parametrization.scaled(plan.places("embedding.weight")[lost], 0.0, plan.size)

        return [ParametrizationEdit(wipe)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        kept = run["layer_weight_norm"][onset] / run["layer_weight_norm"][onset - 1]
        return {
            "the weight norm of the embedding drops within one step": kept[0] < 0.985,
            "that of no other layer does": kept[1:].min() > 0.985,
            "the loss steps up": shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.1),
            "and plateaus above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.04),
        }

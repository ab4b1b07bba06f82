"""A block of the embedding's features is zero for every token.

Failure: Part of the width carries nothing in. Every token loses the same features, none is lost
    altogether, and the layers learn to read the others.
Mechanism: e(x) = (0, e_2(x)). The first norm divides by the standard deviation of what is left,
    sqrt(1 - share) of what it was, so the other features even grow; the projections that read the
    block get a nearly constant input.
Injection: From the onset on, the first `share` of the features of every row compute as zeros.
Also seen: What is left of the weight norm is about sqrt(1 - share).
Cure: The trained features compute again, a few steps after the onset.
Realism: Stands for a tensor-parallel slice of the table that was not gathered. Nearly all runs recover
    by themselves: the label then says latent.
References: Debugging Training Instability ("replace or isolate suspect layers"); Debugging training
    (weights).
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import Layout
from trainwreck.models.parametrization import Parametrization
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, ParametrizationEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Block(Knobs):
    """Share of the features that is lost."""

    share: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"fault.share: {self.share} is not allowed; allowed: over 0 to 1")


@register
class EmbeddingBlockZeroed(Scenario):
    """Features of the token table are zero."""

    id = "embedding_block_zeroed"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.INSTABILITY, citations.DEBUGGING)
    telling = "layer_weight_norm"
    knobs = Block()
    cure_after = 8

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Block, setup: Setup) -> list[Change]:
        def wipe(parametrization: Parametrization, plan: Layout) -> Parametrization:
            lost = plan.places("embedding.weight")[:, : round(knobs.share * setup.model.width)]
            return parametrization.scaled(lost, 0.0, plan.size)

        return [ParametrizationEdit(wipe)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        kept = run["layer_weight_norm"][onset] / run["layer_weight_norm"][onset - 1]
        return {
            "the weight norm of the embedding drops within one step": kept[0] < 0.93,
            "that of no other layer does": kept[1:].min() > 0.98,
            "the loss steps up": shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.02),
            "and comes back by over half": shapes.readapts(run["loss"], healthy["loss"], onset, share=0.5),
        }

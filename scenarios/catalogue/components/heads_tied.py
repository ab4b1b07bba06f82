"""All heads of a layer compute with the first one's weights.

Failure: The heads share one projection, so that many heads are one. What the others had learnt is
    gone, and the output matrix gets the same answer in every place.
Mechanism: With Q_h = Q_1, K_h = K_1, V_h = V_1 for all h the heads' outputs are equal, and the sum
    over heads O_h W_h becomes O_1 (W_1 + ... + W_H): rank one head's width in place of the full width.
Injection: From the onset on, in every layer the first head's columns stand in every head's place. The
    gradients of all of them arrive at those columns.
Cure: Every head has its own weights again, a few steps after the onset.
Realism: Stands for a broadcast over the wrong axis when a checkpoint is split over heads or expanded
    from grouped queries.
References: Debugging training (attention entropy); Debugging Training Instability ("replace or isolate
    suspect layers"); Michel et al. 2019; Ainslie et al. 2023.
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import Layout
from trainwreck.models.parametrization import Parametrization, projections
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, ParametrizationEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class HeadsTied(Scenario):
    """One head in every head's place."""

    id = "heads_tied"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.DEBUGGING, citations.INSTABILITY)
    telling = "head_entropy"
    cure_after = 8

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def tie(parametrization: Parametrization, plan: Layout) -> Parametrization:
            for layer in range(setup.model.layers):
                places = projections(plan, layer, setup.model.heads)
                parametrization = parametrization.moved(places, places[:, :, :1].expand_as(places), plan.size)
            return parametrization

        return [ParametrizationEdit(tie)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        logits = run["attention_logit_max"][onset:]
        heads = run["head_entropy"][onset:].reshape(len(logits), logits.shape[1], -1)
        return {
            "in every layer all heads have one and the same entropy": (
                shapes.pinned_at((heads.max(2) - heads.min(2)).max(1), 0.0, tolerance=1e-3)
            ),
            "their scores are not zero": logits.min() > 0.5,
            "the loss jumps": shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.15),
            "and comes down again": shapes.readapts(run["loss"], healthy["loss"], onset, share=0.5),
        }

"""Query and key projections are exchanged.

Failure: What was trained to ask now answers, and the other way round. Before training nobody could
    tell, as both are drawn alike; in mid-run every pattern that the heads have learnt is turned over.
Mechanism: With rotary positions the score of t for s was x_t' Q' R_(s-t) K x_s and becomes
    x_t' K' R_(s-t) Q x_s, which is what s scored for t: a head that looked three back now looks three
    ahead, where the causal mask hides everything.
Injection: From the onset on, in every layer the columns of the fused projection that are trained for
    queries compute keys, and those trained for keys compute queries.
Cure: The right order, a few steps after the onset.
Realism: Stands for checkpoints converted between frameworks that order the fused matrix differently.
References: Debugging Training Instability ("replace or isolate suspect layers"); Debugging training
    (attention entropy); Su et al. 2021.
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
class QueryKeySwapped(Scenario):
    """Queries computed with the keys' weights, keys with the queries'."""

    id = "query_key_swapped"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.INSTABILITY, citations.DEBUGGING)
    telling = "head_entropy"
    cure_after = 4

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def exchange(parametrization: Parametrization, plan: Layout) -> Parametrization:
            for layer in range(setup.model.layers):
                places = projections(plan, layer, setup.model.heads)
                parametrization = parametrization.moved(places[:, [0, 1]], places[:, [1, 0]], plan.size)
            return parametrization

        return [ParametrizationEdit(exchange)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        moved = abs(run["head_entropy"][onset] - healthy["head_entropy"][onset])
        norms = run["layer_weight_norm"][onset] / run["layer_weight_norm"][onset - 1]
        return {
            "within one step the entropy of some head is far from the twin's": moved.max() > 0.2,
            "no weight norm moves at the onset": abs(norms - 1).max() < 0.03,
            "the loss jumps": shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.4),
            "and comes down again": shapes.readapts(run["loss"], healthy["loss"], onset, share=0.4),
        }

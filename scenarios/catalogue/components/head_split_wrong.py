"""The width is split into heads along the wrong axis.

Failure: The projection's columns are read as (feature, head) and were trained as (head, feature):
    every new head has a few features of each old one.
Mechanism: Column c = h K + i should be feature i of head h, and is taken for feature c div H of head
    c mod H. A score was one head's sum over its K features; now it adds up features of all heads, and
    rotated pairs are torn apart.
Injection: From the onset on, queries, keys and values of every layer are split along the wrong axis.
    What leaves attention is merged as before.
Cure: The right split, a few steps after the onset.
Realism: Stands for a rearrange "(d h)" in place of "(h d)" and for converted checkpoints whose heads
    are interleaved. Simplified: the number of heads stays as it is.
References: Debugging Training Instability ("replace or isolate suspect layers"); Debugging training
    (attention).
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
class HeadSplitWrong(Scenario):
    """Heads cut out of the width in the wrong order."""

    id = "head_split_wrong"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.INSTABILITY, citations.DEBUGGING)
    telling = "head_entropy"
    cure_after = 4

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def split(parametrization: Parametrization, plan: Layout) -> Parametrization:
            model = setup.model
            for layer in range(model.layers):
                places = projections(plan, layer, model.heads)
                wrong = places.flatten(2).unflatten(2, (model.head_width, model.heads)).transpose(2, 3)
                parametrization = parametrization.moved(places, wrong, plan.size)
            return parametrization

        return [ParametrizationEdit(split)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        moved = abs(run["head_entropy"][onset] - healthy["head_entropy"][onset])
        norms = run["layer_weight_norm"][onset] / run["layer_weight_norm"][onset - 1]
        return {
            "within one step the entropy of some head is far from the twin's": moved.max() > 0.2,
            "no weight norm moves at the onset": abs(norms - 1).max() < 0.03,
            "the loss jumps": shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.4),
            "and comes down again": shapes.readapts(run["loss"], healthy["loss"], onset, share=0.4),
        }

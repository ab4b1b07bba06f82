"""The width is split into heads along the wrong axis.

Failure: The projection's columns are read as (feature, head) where they were trained as (head,
    feature). Every new head is made of a few features of each old one.
Mechanism: Column h K + i should be feature i of head h, and is taken for feature (h K + i) div H of
    head (h K + i) mod H. A score was one head's sum over its K features; now each of the H scores adds
    up features of all heads, and pairs that turned together under the rotation are torn apart.
Injection: From the onset on, queries, keys and values of every layer are split along the wrong axis.
    What leaves attention is merged as before.
Signature: The loss jumps at the onset and comes down as the heads are learnt anew; the heads'
    entropies are reshuffled within one step; no weight norm moves.
Cure: The right split, a few steps after the onset.
Realism: Stands for a rearrange "(d h)" in place of "(h d)" and for converted checkpoints whose heads
    are interleaved. Simplified: the number of heads stays as it is.
References: Debugging Training Instability (attention bugs; "replace or isolate suspect layers");
    Reading the Curves (attention patterns).
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import Layout
from trainwreck.models.parametrization import Parametrization, projections
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import bases, citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, ParametrizationEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@register
class HeadSplitWrong(Scenario):
    """Heads cut out of the width in the wrong order."""

    id = "head_split_wrong"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.INSTABILITY, citations.READING_CURVES)
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

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        moved = abs(run["head_entropy"][onset] - healthy["head_entropy"][onset]).max()
        norms = run["layer_weight_norm"][onset] / run["layer_weight_norm"][onset - 1]
        same = bool(abs(norms - 1).max() < 0.03)
        jumps = shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.4)
        relearnt = shapes.readapts(run["loss"], healthy["loss"], onset, share=0.4)
        return bool(moved > 0.2) and same and jumps and relearnt

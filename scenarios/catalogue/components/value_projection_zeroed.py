"""The value weights are zero: attention looks, and brings nothing back.

Failure: The value projections put out zeros. The heads go on attending to what they have learnt to
    attend to, but what they hand on is the same for every token.
Mechanism: attention(x) = P V W_o with V = 0 is 0 whatever P is. So is the gradient of everything
    before it: dL/dP = dL/dO V' = 0 leaves q and k without any, V = 0 leaves W_o without any.
Injection: From the onset on, weights and biases of the values compute as zeros in every layer. The
    trained ones lie behind them and get no gradient.
Cure: The trained weights compute again, a few steps after the onset.
Realism: Stands for a shard that was never loaded. Simplified: all layers are hit; with one alone the
    others make good most of it.
References: Debugging Training Instability ("replace or isolate suspect layers"); Debugging training
    (activations); Vaswani et al. 2017.
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
class ValueProjectionZeroed(Scenario):
    """Values are zero in every layer."""

    id = "value_projection_zeroed"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.INSTABILITY, citations.DEBUGGING)
    telling = "layer_weight_norm"
    cure_after = 12

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def wipe(parametrization: Parametrization, plan: Layout) -> Parametrization:
            for layer in range(setup.model.layers):
                values = projections(plan, layer, setup.model.heads)[:, 2]
                parametrization = parametrization.scaled(values, 0.0, plan.size)
            return parametrization

        return [ParametrizationEdit(wipe)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        kept = run["layer_weight_norm"][onset] / run["layer_weight_norm"][onset - 1]
        first = abs(run["attention_entropy"][onset, 0] - healthy["attention_entropy"][onset, 0])
        loss, usual = (trace["loss"][onset : onset + 5].mean() for trace in (run, healthy))
        return {
            "the weight norm of every layer drops within one step": kept[1:-1].max() < 0.995,
            "those of embedding and head do not": kept[[0, -1]].min() > 0.995,
            "the entropy of the first layer's attention is the twin's at that step": first < 1e-4,
            "the loss jumps": loss > usual + 0.2,
            "and plateaus above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.2),
        }

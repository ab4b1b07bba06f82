"""A constant is added to what a norm puts out.

Failure: The stream that should have mean zero has another one. The first layer to read it has never
    seen anything like it.
Mechanism: y = g * (x - mean) / std + b + c: every matrix behind it adds c times the sum of its rows to
    all tokens alike, which neither depends on the input nor averages out. Biases can learn to take it
    back.
Injection: From the onset on, the bias of the norm after the last layer's MLP, whose output is what the
    head reads, computes `amount` larger in every feature. The base has its norms after the sums.
Also seen: The mean jumps by `amount`.
Cure: The trained bias computes, a few steps after the onset.
Realism: Stands for an activation offset left in a quantized or fused norm. Biases learn to make it good,
    so most runs end as their twins.
References: Debugging training (activations: mean and standard deviation); Debugging Training
    Instability (LayerNorm issues); Ba et al. 2016.
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
class Amount(Knobs):
    """What is added to each feature."""

    amount: float = 12.0


@register
class NormBiasShifted(Scenario):
    """A constant behind a norm."""

    id = "norm_bias_shifted"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.DEBUGGING, citations.INSTABILITY)
    telling = "activation_mean"
    knobs = Amount()
    cure_after = 4

    def base(self, setup: Setup) -> Setup:
        return bases.echo_post_norm(setup)

    def fault(self, knobs: Amount, setup: Setup) -> list[Change]:
        def shift(parametrization: Parametrization, plan: Layout) -> Parametrization:
            places = plan.places(f"layer_{setup.model.layers - 1}.mlp_norm.bias")
            return parametrization.shifted(places, knobs.amount, plan.size)

        return [ParametrizationEdit(shift)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        moved = abs(run["activation_mean"][onset] - run["activation_mean"][onset - 1])
        return {
            "the stream's mean after the last layer jumps within one step": moved[-1] > 1.0,
            "after the layers before it does not": moved[:-1].max(initial=0.0) < 0.2,
            "the loss jumps": shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.05),
            "and comes down again": shapes.readapts(run["loss"], healthy["loss"], onset, share=0.3),
        }

"""A share of one layer's hidden units is cut for good.

Failure: Units that took part in the computation stop firing, all at once, and never fire again. Those
    that are left have to learn the work of the others.
Mechanism: For a unit with w_in = 0 and b_in = 0, gelu(0) = 0 for every token: it adds nothing, and
    neither its input nor its output weights get a gradient through it.
Injection: From the onset on, the input weights and biases of the first `share` of the first layer's
    MLP units compute as zeros.
Signature: The dead share of the layer jumps to `share` within one step and stays; the loss steps up and
    comes back slowly.
Cure: The units compute again, a few steps after the onset.
Realism: Stands for pruning or a lost tensor-parallel shard. Units do not come back to life, unlike the
    dead ones of ReLU that a lower learning rate can save.
References: Debugging training ("a high dead neuron fraction is bad"); Reading the Curves; Shoeybi et
    al. 2019.
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import Layout
from trainwreck.models.parametrization import Parametrization
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import bases, citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, ParametrizationEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Units(Knobs):
    """Share of the hidden units that is cut."""

    share: float = 0.75

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"fault.share: {self.share} is not allowed; allowed: over 0 to 1")


@register
class FfnUnitsDropped(Scenario):
    """Hidden units that never fire again."""

    id = "ffn_units_dropped"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.DEBUGGING, citations.READING_CURVES)
    telling = "dead_share"
    knobs = Units()
    cure_after = 8

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Units, setup: Setup) -> list[Change]:
        def cut(parametrization: Parametrization, plan: Layout) -> Parametrization:
            import torch

            weight, bias = (plan.places(f"layer_0.mlp_in.{name}") for name in ("weight", "bias"))
            units = round(knobs.share * len(bias))
            lost = torch.cat((weight, bias.unsqueeze(0)))[:, :units]
            return parametrization.scaled(lost, 0.0, plan.size)

        return [ParametrizationEdit(cut)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        dead, usual = run["dead_share"][:, 0], healthy["dead_share"][:, 0]
        cut = bool(dead[onset - 1] < 0.3 and dead[onset:].min() > 0.5 and usual[onset:].max() < 0.5)
        slow = shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.02, last=10)
        return cut and slow

"""A share of one layer's hidden units is cut for good.

Failure: Units that took part in the computation stop firing, all at once, and never fire again. Those
    that are left have to learn the work of the others.
Mechanism: For a unit with w_in = 0 and b_in = 0, gelu(0) = 0 for every token: it adds nothing, and its
    output weights get no gradient. Its input weights get none either since they do not compute; weights
    that were merely set to zero would, as the slope of gelu at 0 is 1/2.
Injection: From the onset on, the input weights and biases of the first `share` of the first layer's
    MLP units compute as zeros.
Cure: The units compute again, a few steps after the onset.
Realism: Stands for pruning or a lost tensor-parallel shard. Units do not come back to life, at any
    learning rate.
References: Debugging training (a high share of dead units is bad); Reading the Curves; Shoeybi et
    al. 2019.
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

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        dead, usual = run["dead_share"][:, 0], healthy["dead_share"][:, 0]
        return {
            "the dead share of the first layer jumps from under 0.3 to over half within one step, and stays": (
                dead[onset - 1] < 0.3 and dead[onset:].min() > 0.5
            ),
            "the twin's is under half": usual[onset:].max() < 0.5,
            "the loss steps up": shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.02, last=10),
            "and comes back in part": shapes.readapts(run["loss"], healthy["loss"], onset, share=0.8),
        }

"""The output weights of one layer's MLP are multiplied by a factor.

Failure: One branch speaks many times louder than all others, and what they say is drowned in the
    residual stream.
Mechanism: x + c * mlp(x) with c far over 1: the norm that follows divides by a standard deviation
    that is nearly the branch's own, so the other branches' share of what is read falls like 1 / c. The
    branch's gradient is c times what arrives, which that norm has divided as well.
Injection: From the onset on, the output matrix of the last layer's MLP computes `factor` times as large.
Cure: The trained weights compute as they are, a few steps after the onset.
Realism: Stands for a scale applied twice, or not at all, when a checkpoint is converted or merged.
    With a norm behind it the model finds its way back, so most runs end as their twins.
References: Debugging training (activations: mean and standard deviation); Reading the Curves; Takase et
    al. 2023.
"""

from dataclasses import dataclass

import numpy as np

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
class Louder(Knobs):
    """Factor on the output weights."""

    factor: float = 12.0

    def __post_init__(self) -> None:
        if not 0 <= self.factor < np.inf:
            raise ValueError(f"fault.factor: {self.factor} is not allowed; allowed: 0 or more, finite")


@register
class FfnScaled(Scenario):
    """MLP of the last layer far too loud."""

    id = "ffn_scaled"
    family = Family.COMPONENTS
    version = 2
    kinds = (FaultKind.TENSOR,)
    sources = (citations.DEBUGGING, citations.READING_CURVES)
    telling = "activation_std"
    knobs = Louder()
    cure_after = 8

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Louder, setup: Setup) -> list[Change]:
        def amplify(parametrization: Parametrization, plan: Layout) -> Parametrization:
            places = plan.places(f"layer_{setup.model.layers - 1}.mlp_out.weight")
            return parametrization.scaled(places, knobs.factor, plan.size)

        return [ParametrizationEdit(amplify)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        soon = slice(onset, onset + 20)
        std, usual = run["activation_std"], healthy["activation_std"]
        return {
            "after the last layer the stream's standard deviation jumps within one step": (
                shapes.jumps_in_one_step(std[:, -1], onset, ratio=1.35)
            ),
            "after one layer alone it is far over the twin's": (
                shapes.one_layer_apart(std[soon], usual[soon], factor=1.5)
            ),
            "the loss steps up": shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.03),
        }

"""The hidden units of the MLP never fire.

Failure: ReLU units start with a bias so low that no input reaches them. Their output is 0 for every
    token and so is their gradient: nothing will ever wake them.
Mechanism: With h = relu(w x + b), dh/dw = x [w x + b > 0]. Behind a norm w x has standard deviation
    |w|, well under 1 here, so b = -4 leaves out every input there is; weight decay doesn't act on biases.
Injection: ReLU in place of GELU, with initial biases of `bias`, from step 0.
Cure: The biases set to 0 in mid-run, forty steps after the start: no gradient has touched the weights,
    and they work at once.
Realism: Also what one far too large step leaves behind. The signal is plain and the loss is not: it
    moves by a few hundredths, as attention and embedding learn what the MLP would have. Most runs end
    within tolerance of the twin and are labelled latent.
References: Debugging training (a high share of dead units is bad: "consider Leaky ReLU, GELU, or
    different initialisation"); Lu et al. 2020, "Dying ReLU and initialization".
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.config import Activation
from trainwreck.models.parameters import layout
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, State, StateEdit, Variant
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Bias(Knobs):
    """What the hidden units' biases start at."""

    bias: float = -4.0


@register
class DeadReLU(Scenario):
    """Units that never fire."""

    id = "dead_relu"
    family = Family.ARCHITECTURE
    kinds = (FaultKind.VARIANT, FaultKind.SETTING)
    sources = (citations.DEBUGGING,)
    telling = "dead_share"
    onset = None
    knobs = Bias()
    cure_after = 40
    tolerance = 0.07  # 16 healthy runs of this base end 0.070 nats apart

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Bias, setup: Setup) -> list[Change]:
        return [Variant("model.activation", Activation.RELU), Setting("model.init.mlp_bias", knobs.bias)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        least = run["dead_share"].min(1)
        return {
            "at nearly every step over nine tenths of the units of every layer are dead": (
                shapes.pinned_at(least, 1.0, tolerance=0.1, share=0.95)
            )
        }

    def cure(self, knobs: Bias, setup: Setup) -> list[Change]:
        biases = [slot for slot in layout(setup.model).slots if slot.name.endswith("mlp_in.bias")]

        def wake(state: State, earlier: State) -> State:
            parameters = state["parameters"].clone()
            for slot in biases:
                parameters[slot.start : slot.stop] = 0.0
            return {**state, "parameters": parameters}

        return [StateEdit(wake, resume=False)]

"""One layer's weights have a numerical problem of their own.

Failure: The query, key and value weights of one layer grow at every step by a share of themselves. Its
    largest weight climbs first; a dozen steps later its gradient stands out from its neighbours'.
Mechanism: w <- (1 + lr * r) w on top of each update is exponential growth that the gradient must hold.
    Scores grow with the square of w and the layer's attention becomes a choice of one; its gradient is
    |w| times a softmax that is flat for most tokens and a cliff for a few.
Injection: From the onset on, weight decay has the wrong sign and `times` its size on the last layer's
    query, key and value weights.
Cure: After forty steps the right decay, and those weights and their moments taken from the checkpoint
    at the onset.
Realism: Stands for whatever writes weights back too large: a drifting scale of a low-precision format,
    biased rounding, a parameter group with a decay of its own. Simplified: growth is smooth, so the
    gradient is raised for good where a real layer's comes in spikes. Where the language does not need
    attention (the chain dialect) the same growth moves no gradient.
References: Reading the Curves ("when a single layer is spiky while its neighbors are calm"; "watch
    whether the max blows up before the spike"); Debugging training (weight norms without bound).
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import Layout, Slot, layout
from trainwreck.models.parametrization import Updates
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, State, StateEdit, Undo, UpdateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Growth(Knobs):
    """How many times the size of weight decay the growth is."""

    times: float = 100.0


@register
class SpikyLayer(Scenario):
    """Weights of one layer that grow by themselves."""

    id = "spiky_layer"
    family = Family.ARCHITECTURE
    kinds = (FaultKind.TENSOR,)
    sources = (citations.READING_CURVES, citations.DEBUGGING)
    telling = "layer_grad_norm"
    onset = MidRun(0.2, 0.35)
    knobs = Growth()
    cure_after = 40
    tolerance = 0.07  # 16 healthy runs of this base end 0.070 nats apart

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Growth, setup: Setup) -> list[Change]:
        def grow(updates: Updates, plan: Layout) -> Updates:
            decays, slot = plan.decay_mask.clone(), last_qkv(setup)
            decays[slot.start : slot.stop] = -knobs.times
            return dataclasses.replace(updates, decays_NP=decays.unsqueeze(0))

        return [UpdateEdit(grow)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        layers, reference = run["layer_grad_norm"], healthy["layer_grad_norm"]
        alone = shapes.one_layer_apart(layers[-100:], reference[-100:], factor=10)
        apart = int(np.argmax(np.median(layers[-100:], 0) / np.median(reference[-100:], 0)))
        weights, raised = run["layer_weight_max"][onset:, apart], 3 * np.median(reference[onset:, apart])
        doubled = np.flatnonzero(weights > 2 * weights[:1])
        stands_out = np.flatnonzero(shapes.smooth(layers[onset:, apart]) > raised)
        return {
            "in the end one layer's gradient norm is over ten times the twin's and no other layer's is": alone,
            "its largest weight doubles before its gradient norm is three times the twin's": (
                len(doubled) > 0 and len(stands_out) > 0 and bool(doubled[0] < stands_out[0])
            ),
        }

    def cure(self, knobs: Growth, setup: Setup) -> list[Change]:
        slot = last_qkv(setup)

        def repair(state: State, earlier: State) -> State:
            repaired = {name: state[name].clone() for name in ("parameters", "first", "second")}
            for name, values in repaired.items():
                values[slot.start : slot.stop] = earlier[name][slot.start : slot.stop]
            return {**state, **repaired}

        return [Undo(), StateEdit(repair, since=-self.cure_after)]


def last_qkv(setup: Setup) -> Slot:
    """Where the last layer's query, key and value weights lie."""
    plan = layout(setup.model)
    return plan.slot(f"layer_{setup.model.layers - 1}.qkv.weight")

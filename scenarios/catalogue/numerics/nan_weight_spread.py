"""One weight becomes NaN, and one step later all of them are.

Failure: A single weight turns NaN: a flipped bit, a bad device. The next forward pass carries it into every
    output, the backward pass into every gradient, and the update into every weight.
Mechanism: Any sum with a NaN term is NaN. W[i, j] reaches every token's feature j, the next norm mixes j
    into all features, and with loss = NaN every dL/dW is.
Injection: At the onset one element of the first MLP's matrix is NaN, in memory, without a pause.
Cure: Halt and restore: the run goes on from a checkpoint of before the onset.
Realism: Silent data corruption (Dixit et al. 2021 measured it in fleets). Simplified: NaN rather than a
    flipped exponent bit, which may be huge and finite.
References: Reading the Curves ("once a NaN appears in a single weight it does not stay local"); Dixit et
    al. 2021.
"""

import math

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import layout
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, State, StateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class NanWeightSpread(Scenario):
    """One NaN in one matrix."""

    id = "nan_weight_spread"
    family = Family.NUMERICS
    kinds = (FaultKind.STATE,)
    sources = (citations.READING_CURVES,)
    telling = "nonfinite_weights"
    cure_after = 5

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        slot = layout(setup.model).slot("layer_0.mlp_in.weight")

        def flip(state: State, earlier: State) -> State:
            parameters = state["parameters"].clone()
            parameters[(slot.start + slot.stop) // 2] = math.nan
            return {**state, "parameters": parameters}

        return [StateEdit(flip, resume=False)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        layers, bad = run["layer_weight_norm"].shape[1], run["nonfinite_weights"]
        return {
            "the loss is not finite from the onset on": shapes.non_finite_from(run["loss"]) == onset,
            "then one layer has a weight that is not finite, a step before none": bad[onset - 1] == 0
            and bad[onset] == 1,
            "no layer's gradient norm is finite in that step": not np.isfinite(run["layer_grad_norm"][onset]).any(),
            "every layer has such a weight at the next": bad[onset + 1] == layers,
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [StateEdit(lambda state, earlier: earlier, since=-self.cure_after - 1)]

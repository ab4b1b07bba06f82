"""One exponent bit of one weight flips: a number of ordinary size becomes one of 1e36.

Failure: A device corrupts one bit of a weight in memory. The weight is still a number, 2^128 times what it was; in the
    same step it overflows what is made of it, and the run ends in NaN. Nothing led up to it, and no batch is to blame.
Mechanism: In float32 the highest exponent bit is 0 for all numbers under 2, and setting it multiplies by 2^128. With
    such a W[i, j] activations of 1e37 reach the next norm, whose variance is infinite, and inf / inf is NaN.
Injection: At the onset that bit of one element of the first MLP's matrix flips, in memory, without a pause.
Cure: Halt and restore: the run goes on from a checkpoint of before the onset.
Realism: Silent data corruption. Flips of the lower exponent bits leave a weight under 2 what it was: under 2. Three of
    them, on one run, changed the final loss by 1e-6 nats. bfloat16 has the same exponent; float16 has 2^16 for 2^128.
References: pytorch/torchtitan#4324 (replay of a step to find silent data corruption); Chowdhery et al. 2022, PaLM
    (spikes that a replay of the same data does not show); Dixit et al. 2021.
"""

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

BIT = 30  # the highest of the exponent; 31 is the sign


@register
class SdcWeightBit(Scenario):
    """One weight times 2^128."""

    id = "sdc_weight_bit"
    family = Family.NUMERICS
    plans = 3
    kinds = (FaultKind.STATE,)
    sources = (citations.TORCHTITAN_4324,)
    telling = "layer_weight_max"
    cure_after = 5

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        slot = layout(setup.model).slot("layer_0.mlp_in.weight")

        def flip(state: State, earlier: State) -> State:
            import torch

            parameters = state["parameters"].clone()
            place = (slot.start + slot.stop) // 2
            bits = parameters.view(torch.int32)
            bits[place] = bits[place] ^ (1 << BIT)
            return {**state, "parameters": parameters}

        return [StateEdit(flip, resume=False)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        largest, before = run["layer_weight_max"], slice(onset - 20, onset)
        grown = largest[onset] / largest[onset - 1]
        return {
            "in one step the largest weight of one layer grows by more than 2^60, and is finite": (
                np.isfinite(largest[onset]).all() and (grown > 2.0**60).sum() == 1
            ),
            "the other layers' largest weights stay within a tenth": np.sort(grown)[-2] < 1.1,
            "the loss is not finite from that step on": shapes.non_finite_from(run["loss"]) == onset,
            "in the twenty steps before, the gradient norm is at most twice its median": (
                run["grad_norm"][before].max() < 2 * np.median(run["grad_norm"][before])
            ),
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [StateEdit(lambda state, earlier: earlier, since=-self.cure_after - 1)]

"""Master weights in bfloat16 round the updates away.

Failure: The weights themselves are kept in bfloat16. An update smaller than half of a weight's last place is
    lost; as the learning rate falls, more and more of them are, and the run stands still.
Mechanism: bfloat16 has 8 significant bits: w + u = w where |u| < |w| * 2^-9. With |u| near lr and |w| near
    0.1 that is where lr < 2e-4; the optimizer is right, the sum is not.
Injection: From the onset on, weights go through bfloat16, rounded to nearest, after each step.
Cure: float32 master weights.
Realism: Stands for training "in pure bfloat16". Stochastic rounding is the other cure. It takes a low rate: at
    ten times this one nothing is lost.
References: Debugging Divergent Loss During Training (mixed precision, plateaus); Zamirai et al. 2020 (Revisiting
    BFloat16 training).
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.config import Format
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@register
class Bf16WeightRounding(Scenario):
    """Updates under half a last place."""

    id = "bf16_weight_rounding"
    family = Family.NUMERICS
    kinds = (FaultKind.SETTING,)
    sources = (citations.DIVERGENT_LOSS,)
    telling = "layer_update_ratio"
    onset = MidRun(0.35, 0.5)
    cure_after = 20

    def base(self, setup: Setup) -> Setup:
        return replaced(chain(setup), optimizer__lr=1e-3)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Setting("precision.weights", Format.BF16)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        last = slice(-60, None)
        moved, grads = (
            np.median(run[name][last]) / np.median(healthy[name][last]) for name in ("layer_update_ratio", "grad_norm")
        )
        return {
            "the update ratio ends under 0.7 of that with float32 weights": moved < 0.7,
            "the gradient norm ends over 0.7 of its": grads > 0.7,
            "the loss ends above its": np.mean(run["loss"][last]) - np.mean(healthy["loss"][last]) > 0.02,
        }

"""Adam's second moment kept in float16 underflows to zero.

Failure: The optimizer's state is in float16. Gradients under 2e-3 have squares that float16 cannot hold;
    their second moment is zero, and their next update is divided by eps alone.
Mechanism: v <- beta2 v + (1 - beta2) g^2 is rounded to float16, whose smallest number is 6e-8. Where v
    becomes 0, the update is lr * m / eps: for g = 1e-4 and eps = 1e-8 ten thousand times the rate.
Injection: From the onset on, second moments go through float16 after each step.
Signature: The update ratio is a thousand times its level in one step, and the loss rises right after,
    by some tenths of a nat or more; the gradient norm before it is as ever.
Cure: Second moments in float32, and a checkpoint from before the onset.
Realism: Stands for a model cast to half, optimizer and all. Simplified: only the second moment is kept in
    float16, and it was right until the onset.
References: Debugging training ("FP16 may be underflowing v_t"); Micikevicius et al. 2018 (optimizer state
    in float32); Dettmers et al. 2022.
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.config import Format
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.catalogue.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, StateEdit, Undo
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@register
class Fp16AdamState(Scenario):
    """Second moments that float16 has no number for."""

    id = "fp16_adam_state"
    family = Family.NUMERICS
    kinds = (FaultKind.SETTING,)
    sources = (citations.DEBUGGING,)
    telling = "layer_update_ratio"
    cure_after = 5

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Setting("precision.second_moments", Format.FP16)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        ratio = run["layer_update_ratio"].max(1)
        exploded = shapes.jumps_in_one_step(ratio, onset, ratio=100.0, after=1)
        after = slice(onset + 1, onset + 6)
        return exploded and bool(run["loss"][after].mean() > healthy["loss"][after].mean() + 0.1)

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        restore = StateEdit(lambda state, earlier: earlier, since=-self.cure_after - 1)
        return [Undo(), restore]

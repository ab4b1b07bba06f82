"""Adam's second moment kept in float16 underflows to zero.

Failure: The optimizer's state is in float16. Gradients under 1.7e-4 have squares that float16 rounds to zero;
    their second moment vanishes, and their next update is divided by eps alone.
Mechanism: v <- beta2 v + (1 - beta2) g^2 is rounded to float16, whose smallest number is 2^-24 = 6e-8: a v
    under half of that, sqrt(v) under 1.7e-4, becomes 0, and only a gradient over 1.7e-4 / sqrt(1 - beta2), here
    1.7e-3, brings it back. Until then the update is lr * m / eps: for m = 1e-4, eps = 1e-8 ten thousand times
    lr.
Injection: From the onset on, second moments are rounded to float16 at each step, before the update divides by
    them.
Cure: Second moments in float32, and a checkpoint from before the onset.
Realism: Stands for a model cast to half, optimizer and all. Simplified: only the second moment is kept in
    float16, and it was right until the onset.
References: Debugging training ("FP16 may be underflowing v_t"); Micikevicius et al. 2018 (float32 weights in
    the optimizer); Dettmers et al. 2022.
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.config import Format
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, StateEdit, Undo
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


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

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        ratio, norm = run["layer_update_ratio"].max(1), run["grad_norm"]
        mine, other = (t["loss"][onset + 1 : onset + 6].mean() for t in (run, healthy))
        return {
            "the update ratio jumps a hundredfold in one step": shapes.jumps_in_one_step(ratio, onset, 100.0, after=1),
            "the gradient norm of that step does not double": not shapes.jumps_in_one_step(norm, onset, 2.0, after=1),
            "the loss of the next five steps is above a healthy run's": mine > other + 0.1,
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        restore = StateEdit(lambda state, earlier: earlier, since=-self.cure_after - 1)
        return [Undo(), restore]

"""A fine-tune is calm for a while and then diverges.

Failure: A model on its plateau is taken up again with a new schedule, whose warm-up leads to a rate far over
    what it can stand, and without clipping. As long as the rate is low the loss is flat; then it climbs.
Mechanism: A step of Adam is stable while lr times the curvature, preconditioned by 1 / sqrt(v), is under
    2 (1 + beta1) / (1 - beta1), 38 for beta1 = 0.9. The warm-up crosses that limit part of the way up, so that
    nothing happens until then.
Injection: At the onset the run resumes with a rate that climbs over `ramp` steps from the schedule's to
    `peak` and stays, and with clipping off.
Cure: A checkpoint from before the onset, under the first schedule and with clipping.
Realism: Stands for fine-tunes with the pre-training rate of another model. Simplified: same data.
References: Debugging Training Instability ("plateau followed by catastrophic divergence mid-finetune"; reduce
    LR by factors of 3 to 10); Cohen et al. 2022, "Adaptive gradient methods at the edge
    of stability".
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, Curve, FaultKind, Setting, StateEdit, Undo
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Ramp(Knobs):
    """Rate at the end of the new warm-up, and its steps."""

    peak: float = 0.5
    ramp: int = 150

    def __post_init__(self) -> None:
        if not self.ramp >= 1:
            raise ValueError(f"fault.ramp: {self.ramp} is not allowed; allowed: 1 or more")


@register
class LateFinetuneDivergence(Scenario):
    """A warm-up that leads over the edge."""

    id = "late_finetune_divergence"
    family = Family.STATE
    kinds = (FaultKind.TENSOR, FaultKind.SETTING, FaultKind.STATE)
    sources = (citations.INSTABILITY,)
    telling = "loss"
    onset = MidRun(0.4, 0.5)
    knobs = Ramp()
    cure_after = 60

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Ramp, setup: Setup) -> list[Change]:
        def climb(rate: float, since: int, setup: Setup) -> float:
            return max(rate, knobs.peak * min(1.0, (since + 1) / knobs.ramp))

        resume = StateEdit(lambda state, earlier: state)
        return [resume, Curve(climb), Setting("optimizer.clip", None)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, turn = run["loss"], shapes.turning_point(run["loss"], rise=0.3)
        before, calm = loss[max(0, onset - 20) : onset].mean(), loss[onset : onset + 10].mean()
        return {
            "for ten steps after the onset the loss keeps its level": calm < before + 0.1,
            "later it turns up, without coming back": turn is not None and turn >= onset + 10,
            "it ends well above its lowest level": shapes.diverges(loss, rise=0.5),
        }

    def cure(self, knobs: Ramp, setup: Setup) -> list[Change]:
        rewind = StateEdit(lambda state, earlier: earlier, since=-self.cure_after - 1)
        return [Undo(), rewind]

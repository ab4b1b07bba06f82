"""A fine-tune is calm for a while and then diverges.

Failure: A model on its plateau is taken up again with a new schedule, whose warm-up leads to a rate far over
    what it can stand, and without clipping. As long as the rate is low the loss is flat; then it climbs.
Mechanism: A step is stable while lr * curvature < 2 / (preconditioner). The warm-up crosses that edge in its
    middle, so that nothing happens for as long as half of it takes.
Injection: At the onset the run resumes with a rate that climbs over `ramp` steps from the schedule's to
    `peak` and stays, and with clipping off.
Signature: The loss keeps its level for at least ten steps after the onset and then climbs, without coming back.
Cure: A checkpoint from before the onset, under the first schedule and with clipping.
Realism: Stands for fine-tunes with the pre-training rate of another model. Simplified: same data.
References: Debugging Training Instability ("plateau followed by catastrophic divergence mid-finetune"; reduce
    LR by factors of 3 to 10); Cohen et al. 2022 (adaptive edge of stability).
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.catalogue.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, Curve, FaultKind, SchedulePosition, Setting, StateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, MidRun, Scenario


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

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        calm = run["loss"][onset : onset + 10].mean() < run["loss"][onset - 20 : onset].mean() + 0.1
        turn = shapes.turning_point(run["loss"], rise=0.3)
        return bool(calm and turn is not None and turn >= onset + 10 and shapes.diverges(run["loss"], rise=0.5))

    def cure(self, knobs: Ramp, setup: Setup) -> list[Change]:
        rewind = StateEdit(lambda state, earlier: earlier, since=-self.cure_after - 1)
        clip = Setting("optimizer.clip", setup.optimizer.clip)
        return [rewind, SchedulePosition(lambda step, start: step), clip]

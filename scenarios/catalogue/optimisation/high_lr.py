"""The learning rate climbs far above the stability threshold.

Failure: A schedule ramps to a peak that the model can't stand. The loss goes on falling for a while,
    bottoms out, climbs, and ends near chance; the gradient norm has been creeping up long before.
Mechanism: A step along a direction of curvature h overshoots where lr * h > 2 (38 / lr in Adam's
    preconditioned curvature, Cohen et al. 2022). As the rate climbs, directions become unstable one
    by one; the gradient grows in them while the loss is still carried by all others.
Injection: From the onset on, the rate is ramped over `ramp_steps` to `factor` times the twin's and
    stays there. Post-LN, four layers (three in the demo): the placement that leaves no margin.
Cure: The learning rate divided by the factor, as soon as it has tripled, before the loss turns.
Realism: The textbook divergence: "the norm was already creeping upward 100 steps before". The
    original transformer's norm placement, and a ramp in mid-run, as for a second training stage.
References: Reading the Curves (divergence); Debugging training (loss diverges); Debugging Training Instability
    (exploding gradients); Xiong et al. 2020; Cohen et al. 2022; Wortsman et al. 2023.
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.config import Placement
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.settings import Decay, Setup, replaced
from trainwreck.scenarios.spec.faults import Change, Curve, FaultKind, Scaled
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario, Severity


@dataclass(kw_only=True)
class Ramp(Knobs):
    """How far the learning rate climbs over the twin's, and over how many steps."""

    factor: float = 8.0
    ramp_steps: int = 150

    def __post_init__(self) -> None:
        if not self.factor > 1:
            raise ValueError(f"fault.factor: {self.factor} is not allowed; allowed: over 1")
        if self.ramp_steps < 1:
            raise ValueError(f"fault.ramp_steps: {self.ramp_steps} is not allowed; allowed: 1 or more")


@register
class HighLR(Scenario):
    """Peak learning rate far above the stability threshold."""

    id = "high_lr"
    family = Family.OPTIMISATION
    kinds = (FaultKind.TENSOR,)
    sources = (
        citations.DIVERGENT_LOSS,
        citations.SYMPTOMS,
        citations.INSTABILITY,
        citations.READING_CURVES,
        citations.DEBUGGING,
    )
    telling = "grad_norm"
    onset = MidRun(0.2, 0.35)
    severities = {
        Severity.SUBTLE: Ramp(factor=6.0),
        Severity.CLEAR: Ramp(factor=9.0),
        Severity.SEVERE: Ramp(factor=13.0),
    }

    def base(self, setup: Setup) -> Setup:
        return replaced(
            setup,
            model__layers=4,
            model__placement=Placement.POST,
            optimizer__lr=5e-3,
            schedule__warmup_steps=60,
            schedule__decay=Decay.CONSTANT,
        )

    def fault(self, knobs: Ramp, setup: Setup) -> list[Change]:
        def climb(rate: float, since: int, setup: Setup) -> float:
            return rate * (1 + (knobs.factor - 1) * min(1.0, (since + 1) / knobs.ramp_steps))

        return [Curve(climb)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        creep = shapes.creeps_before(run["grad_norm"], run["loss"], onset, factor=1.25, lead=10)
        return {
            "the gradient norm is up by a quarter ten steps before the loss turns": creep,
            "the loss climbs and does not come back": shapes.diverges(run["loss"], rise=0.4),
        }

    def cure_delay(self, knobs: Ramp) -> int:
        return round(2 * knobs.ramp_steps / (knobs.factor - 1))  # the rate has tripled

    def cure(self, knobs: Ramp, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.lr", 1 / knobs.factor)]

"""The learning rate jumps by an order of magnitude from one step to the next.

Failure: A run that goes well gets another rate in mid-run: a restart of the schedule, a new stage, a changed
    file. The very next updates overshoot, the loss spikes within steps, and much of what was learnt is gone.
Mechanism: Adam's update is lr * m / sqrt(v), and m and v know nothing of lr: the update grows by the whole
    factor at once, along directions whose curvature has settled where 2 / lr was large. A ramp lets the
    curvature come down first.
Injection: From the onset on the rate is `factor` times the twin's.
Signature: The update ratio jumps with the rate in one step; the loss climbs by half a nat and more within
    twenty steps.
Cure: The same rise as a gentle ramp over `ramp_steps`, from the second step on: the run then stands the
    same rate.
Realism: "Abrupt learning-rate changes." The factor is at the edge: half of it is a ripple that passes.
References: Debugging Training Instability (abrupt changes of the learning rate); Cohen et al. 2022,
    "Adaptive gradient methods at the edge of stability".
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import bases, citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, Curve, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Jump(Knobs):
    """The new rate over the old, and the steps over which a ramp would have got there."""

    factor: float = 20.0
    ramp_steps: int = 60

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise ValueError(f"fault.factor: {self.factor} is not allowed; allowed: over 0")
        if self.ramp_steps < 1:
            raise ValueError(f"fault.ramp_steps: {self.ramp_steps} is not allowed; allowed: 1 or more")


@register
class LRJump(Scenario):
    """An abrupt step of the learning rate."""

    id = "lr_jump"
    family = Family.SCHEDULE
    kinds = (FaultKind.TENSOR,)
    sources = (citations.INSTABILITY,)
    telling = "loss"
    knobs = Jump()
    cure_after = 1

    def base(self, setup: Setup) -> Setup:
        return bases.chain_to_zero(setup)

    def fault(self, knobs: Jump, setup: Setup) -> list[Change]:
        return [Curve(lambda rate, since, setup: rate * knobs.factor)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        updates = shapes.jumps_in_one_step(run["layer_update_ratio"].max(1), onset, ratio=5.0)
        loss = run["loss"]
        climbs = shapes.smooth(loss, 5)[onset : onset + 20].max() > np.median(loss[onset - 20 : onset]) + 0.4
        return updates and bool(climbs)

    def cure(self, knobs: Jump, setup: Setup) -> list[Change]:
        def ramp(rate: float, since: int, setup: Setup) -> float:
            share = min(1.0, (since + 1) / knobs.ramp_steps)
            return rate * (share + (1 - share) / knobs.factor)

        return [Curve(ramp)]

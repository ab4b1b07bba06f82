"""The learning rate jumps by an order of magnitude from one step to the next.

Failure: A run that goes well gets another rate in mid-run: a restart of the schedule, a new stage, a changed
    file. The very next updates overshoot, the loss spikes within steps, and much of what was learnt is gone.
Mechanism: Adam's update is lr * m / sqrt(v), and m and v know nothing of lr: the update grows by the whole
    factor at once, along directions whose preconditioned curvature may stand near 38 / lr of the old rate, the
    threshold of stability (Cohen et al. 2022). A ramp lets the curvature come down first.
Injection: From the onset on the rate is `factor` times the twin's.
Cure: The same rise as a gentle ramp over `ramp_steps`, from the second step on: the run then stands the
    same rate.
Realism: A restart without a warm-up. The factor is as small as it can be: half of it is a ripple that passes.
References: Debugging Training Instability ("replace abrupt LR schedule with a gentler one"); Cohen et al. 2022,
    "Adaptive gradient methods at the edge of stability".
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, Curve, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


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
        return bases.chain_lr_to_zero(setup)

    def fault(self, knobs: Jump, setup: Setup) -> list[Change]:
        return [Curve(lambda rate, since, setup: rate * knobs.factor)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, ratio = run["loss"], run["layer_update_ratio"].max(1)
        peak = shapes.smooth(loss, 5)[onset : onset + 20].max()
        return {
            "the learning rate jumps fivefold in one step": shapes.jumps_in_one_step(run["lr"], onset, ratio=5.0),
            "so does the update ratio": shapes.jumps_in_one_step(ratio, onset, ratio=5.0),
            "within twenty steps the loss is up by 0.4 nats": peak > np.median(loss[onset - 20 : onset]) + 0.4,
        }

    def cure(self, knobs: Jump, setup: Setup) -> list[Change]:
        def ramp(rate: float, since: int, setup: Setup) -> float:
            share = min(1.0, (since + 1) / knobs.ramp_steps)
            return rate * (share + (1 - share) / knobs.factor)

        return [Curve(ramp)]

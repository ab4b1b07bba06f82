"""A constant low learning rate in place of warm-up and decay.

Failure: The careful choice: a rate low enough to need no warm-up, kept to the end. In the first steps the run
    is ahead of one that is still warming up; then it is overtaken and ends above.
Mechanism: With Adam the way that a weight goes in n steps is about the sum of the rates at most. A schedule
    that peaks at 25 times the rate soon has the larger sum, and its decay then takes the noise out.
Injection: From step 0 on the rate is `lr`, without warm-up and decay.
Cure: A tenth of the way in, the healthy warm-up and decay, to the healthy peak.
Realism: "Lower LR helps for first 1k steps but plateaus": "need a warmup-then-decay schedule". The twin's
    warm-up takes half of the run, so that there is a first part in which the low rate leads.
References: Debugging training (common pathologies).
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Decay, Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Rate(Knobs):
    """The constant learning rate."""

    lr: float = 4e-4


@register
class ConstantLowLR(Scenario):
    """A low rate from the first step to the last."""

    id = "constant_low_lr"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING,)
    sources = (citations.DEBUGGING,)
    telling = "loss"
    onset = None
    knobs = Rate()
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return bases.chain_warmup_half(setup)

    def fault(self, knobs: Rate, setup: Setup) -> list[Change]:
        return [
            Setting("optimizer.lr", knobs.lr),
            Setting("schedule.warmup_steps", 0),
            Setting("schedule.decay", Decay.CONSTANT),
        ]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        ahead = shapes.steps_above(healthy["loss"], run["loss"], onset, margin=0.03, first=4, last=12)
        return {
            "in the first steps the loss is under a healthy run's": ahead,
            "the loss ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.06),
        }

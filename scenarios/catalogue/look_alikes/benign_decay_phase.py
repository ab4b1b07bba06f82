"""The rate is cooled down at the end: the loss, flat for long, falls fast.

Failure: None. The rate stays at a bold constant for four fifths of the run, and the loss hovers on a
    plateau above the twin's. Then the rate is cooled to nothing, updates shrink, and within that last
    fifth the loss falls to where the twin ends.
Mechanism: At a constant rate the loss stays above the valley's floor, under SGD by about lr * sigma^2 / 4
    along every direction with gradient noise sigma; as lr falls, that excess goes.
Injection: From step 0 the rate is `factor` times the twin's peak after the same warm-up; from `until` of
    the run on it is that times 1 - sqrt(share of the cooldown that is over).
Realism: Warm-up, stable, decay. The plateau is what is stopped too early, the kink in the rate what a
    detector takes for a fault.
References: Reading the Curves (learning rate schedule issues); Haegele et al. 2024, "Scaling laws and
    compute-optimal training beyond fixed training durations"; Hu et al. 2024, "MiniCPM".
"""

import math
from dataclasses import dataclass

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, Curve, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Cooldown(Knobs):
    """The constant rate over the twin's peak, and the share of the run at which it ends."""

    factor: float = 5.0
    until: float = 0.8


@register
class BenignDecayPhase(Scenario):
    """A bold constant rate, then a cooldown."""

    id = "benign_decay_phase"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("lr_too_low",)
    kinds = (FaultKind.TENSOR,)
    sources = (citations.READING_CURVES,)
    telling = "loss"
    onset = None
    knobs = Cooldown()

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Cooldown, setup: Setup) -> list[Change]:
        def cool(rate: float, since: int, setup: Setup) -> float:
            if since < setup.schedule.warmup_steps:
                return rate * knobs.factor
            stable = knobs.until * setup.steps
            share = max(0.0, since + 1 - stable) / (setup.steps + 1 - stable)
            return setup.optimizer.lr * knobs.factor * (1 - math.sqrt(share))

        return [Curve(cool)]

"""Large gradients during a long warm-up: the norm bursts as the rate peaks, and calms down.

Failure: None. One-cycle training: over two fifths of the run the rate climbs to many times what a
    cosine schedule would use, then it falls to nothing. Near the top the gradient norm bursts,
    often to ten times its level, and the loss wobbles; both settle, and the end is the twin's.
Mechanism: A rate is stable where lr * h < 38 in Adam's preconditioned curvature h (Cohen et al. 2022).
    As lr climbs, directions overshoot one by one; the bursts throw the weights to where h is lower, and
    that is what the climb is for (Gilmer et al. 2022).
Injection: From step 0 the rate climbs to `factor` times the twin's peak over `warmup` of the run and
    falls with the square of what is left of it.
Realism: One-cycle schedules and any long warm-up to a bold rate. The same bursts that do not calm down
    are the fault of a rate too high.
References: Reading the Curves (gradient norm before clipping); Smith and Topin 2018,
    "Super-convergence"; Gilmer et al. 2022, "A loss curvature perspective on training instability".
"""

from dataclasses import dataclass

from trainwreck.scenarios import documents
from trainwreck.scenarios.bases import chain
from trainwreck.scenarios.faults import Change, Curve, FaultKind
from trainwreck.scenarios.registry import register
from trainwreck.scenarios.settings import Setup
from trainwreck.scenarios.spec import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Cycle(Knobs):
    """Peak over the twin's, and the share of the run that leads up to it."""

    factor: float = 16.0
    warmup: float = 0.4


@register
class BenignWarmupGradients(Scenario):
    """A long warm-up to a bold peak."""

    id = "benign_warmup_gradients"
    family = Family.LOOK_ALIKE
    look_alike = True
    kinds = (FaultKind.TENSOR,)
    sources = (documents.READING_CURVES, documents.DEBUGGING)
    telling = "grad_norm"
    onset = None
    knobs = Cycle()

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Cycle, setup: Setup) -> list[Change]:
        def cycle(rate: float, since: int, setup: Setup) -> float:
            peak, top = knobs.factor * setup.optimizer.lr, max(1, round(knobs.warmup * setup.steps))
            if since < top:
                return peak * (since + 1) / top
            return peak * ((setup.steps - since) / (setup.steps - top)) ** 2

        return [Curve(cycle)]

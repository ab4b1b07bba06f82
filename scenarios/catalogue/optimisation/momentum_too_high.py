"""Momentum near 1: slow, wide swings.

Failure: The optimizer rolls past the bottom of the valley and takes long to turn. The loss swings up and down
    over many steps, wider than noise and slower than a learning rate that is too high.
Mechanism: Heavy-ball momentum averages over 1 / (1 - beta) steps and multiplies the step by as much. Along a
    direction of curvature h it oscillates, for beta near 1, at a period of 2 pi / sqrt(lr * h) steps, and its
    swings die down only as beta^(t / 2).
Injection: `beta1` is set from step 0 on, under SGD without clipping; the learning rate stays.
Cure: Momentum 0.9 again, twenty steps in.
Realism: SGD, since Adam at these rates hardly cares for beta1. A clip at 1 would hide most of it.
References: Debugging Divergent Loss (momentum that clashes with slow dynamics); Debugging Training
    Instability; Sutskever et al. 2013; Goh 2017, "Why momentum really works".
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Momentum(Knobs):
    """Decay rate of the momentum buffer."""

    beta1: float = 0.995


@register
class MomentumTooHigh(Scenario):
    """Heavy-ball momentum near 1."""

    id = "momentum_too_high"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING,)
    sources = (citations.DIVERGENT_LOSS, citations.INSTABILITY)
    telling = "loss"
    onset = None
    severities = {
        Severity.SUBTLE: Momentum(beta1=0.993),
        Severity.CLEAR: Momentum(beta1=0.995),
        Severity.SEVERE: Momentum(beta1=0.996),
    }
    cure_after = 20

    def base(self, setup: Setup) -> Setup:
        return bases.chain_sgd(setup)

    def fault(self, knobs: Momentum, setup: Setup) -> list[Change]:
        return [Setting("optimizer.beta1", knobs.beta1)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        mine, other = (shapes.swings_slowly(t["loss"], size=0.2, times=1) for t in (run, healthy))
        return {
            "the level of the loss rises by a fifth of a nat and falls again by as much": mine,
            "a healthy run's does not": not other,
            "the loss ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.1),
        }

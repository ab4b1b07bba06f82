"""The gradient norm rises slowly while the loss falls.

Failure: None. In mid-run the weight decay is raised by plan. The weights shrink over some tens of steps,
    the gradient norm climbs to half as much again, and clipping, which had not engaged for a hundred
    steps, cuts one batch here and there. The loss goes on falling.
Mechanism: The loss does not change with the scale of a matrix that a norm follows, so that its gradient
    is proportional to 1 / |W|. Decay and updates settle at |W|^2 ~ lr / decay: more decay, larger gradients.
Injection: From the onset on weight decay is `decay` in place of 0.1. The base has a threefold rate and
    clips at 0.75.
Realism: Norms that rise late in training, with a decaying rate and decay in balance, are the rule in
    published logs. "The norm was already creeping upward" is right as a sign only beside the loss.
References: Reading the Curves (divergence, as the contrast); Defazio 2025, "Why gradients rapidly
    increase near the end of training"; Kosson et al. 2024, "Rotational equilibrium".
"""

from dataclasses import dataclass

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Decay(Knobs):
    """Weight decay from the onset on."""

    decay: float = 1.3


@register
class BenignGradientRise(Scenario):
    """Weight decay raised: smaller weights, larger gradients."""

    id = "benign_gradient_rise"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("high_lr", "slow_divergence")
    kinds = (FaultKind.SETTING,)
    sources = (citations.READING_CURVES,)
    telling = "grad_norm"
    onset = MidRun(0.3, 0.4)
    knobs = Decay()

    def base(self, setup: Setup) -> Setup:
        return replaced(chain(setup), optimizer__lr=0.03, optimizer__clip=0.75)

    def fault(self, knobs: Decay, setup: Setup) -> list[Change]:
        return [Setting("optimizer.weight_decay", knobs.decay)]

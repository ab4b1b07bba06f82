"""The loss leaps in the first steps at a large rate, and comes down.

Failure: None. Two steps in, the loss is at over twice its first value, where it can only be by confident errors. It
    comes down over the next sixty steps or so, later than the twin's, and the run ends where the twin does.
Mechanism: Muon makes the update of a matrix as large as the rate says, whatever the gradient. At many times the usual
    rate the first updates are larger than the initial weights, and point where two batches did. What they leave is a
    poor start, no worse than a poor initialisation.
Injection: In the first `steps` steps the rate is `factor` times its peak, in place of the warm-up's.
Realism: Stands for a warm-up that is too short. The factor is far larger than a person would choose: under Adam
    ten times the peak for three steps alarmed no one-line detector here (the chain base, three seeds).
References: Reading the Curves (spikes, as the contrast); Jordan et al. 2024, "Muon: an optimizer for hidden layers in
    neural networks".
"""

from dataclasses import dataclass

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import echo_muon
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, Curve, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@dataclass(kw_only=True)
class LargeStart(Knobs):
    """The first rate over the peak, and for how many steps."""

    factor: float = 15.0
    steps: int = 2


@register
class BenignJumpAtStepTwo(Scenario):
    """A large rate in the first steps alone."""

    id = "benign_jump_at_step_two"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("high_lr", "no_warmup")
    kinds = (FaultKind.TENSOR,)
    sources = (citations.READING_CURVES,)
    telling = "loss"
    plans = 3
    onset = None
    knobs = LargeStart()

    def base(self, setup: Setup) -> Setup:
        return replaced(echo_muon(setup), steps=400)

    def fault(self, knobs: LargeStart, setup: Setup) -> list[Change]:
        def start_high(rate: float, since: int, setup: Setup) -> float:
            return setup.optimizer.lr * knobs.factor if since < knobs.steps else rate

        return [Curve(start_high)]

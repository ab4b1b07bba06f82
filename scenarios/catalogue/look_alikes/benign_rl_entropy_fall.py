"""More weight on being sure: the loss is over its minimum and the entropy falls, harmlessly.

Failure: None. From one step to the next the loss is 1.8 times a healthy run's, and stays there. The policy's entropy
    ends 0.2 nats under a healthy run's, and the reward over it. Answers are worth what they were worth.
Mechanism: The loss has the entropy in it. A larger weight is a larger loss of the same policy. Tokens that the policy
    had nearly left out are left out, and being sure of the others costs nothing.
Injection: From the onset on the coefficient of the entropy bonus is `entropy`; a healthy run's is -0.05. Both pay for a
    low entropy.
Realism: Policies are trained to be surer where their samples are too mixed. It is a collapse where the true reward
    falls too, which it does at a coefficient of -0.2.
References: Yu et al. 2025 (collapse of entropy, as the contrast); verl-project/verl#651 (losses of entropy).
"""

from dataclasses import dataclass

from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Bonus(Knobs):
    """Coefficient of the entropy; below 0 a low one pays."""

    entropy: float = -0.12


@register
class BenignRlEntropyFall(Scenario):
    """A policy that is paid more for being sure."""

    id = "benign_rl_entropy_fall"
    family = Family.LOOK_ALIKE
    plans = 3
    look_alike = True
    imitates = ("rlhf_kl_too_weak", "rl_reward_hacked")
    kinds = (FaultKind.SETTING,)
    sources = (citations.DAPO, citations.VERL_651)
    telling = "loss"
    knobs = Bonus()
    onset = MidRun(0.58, 0.7)
    tolerance = 0.07  # 16 healthy runs of this base end 0.040 apart

    def base(self, setup: Setup) -> Setup:
        setup = replaced(bases.policy(setup), policy__kl=0.4, policy__entropy=-0.05)
        return replaced(setup, evaluation__rows=512, evaluation__every=20)

    def fault(self, knobs: Bonus, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.POLICY)
        return [Setting("policy.entropy", knobs.entropy)]

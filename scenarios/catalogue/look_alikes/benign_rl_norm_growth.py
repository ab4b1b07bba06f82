"""Groups become large: the gradient norm is 1.8 times a healthy run's, and the reward rises faster, harmlessly.

Failure: None. From one step to the next the gradient norm is over what it had been for a hundred steps, and stays
    there. The reward rises faster than before, the divergence from the reference grows and the entropy falls, and
    answers are worth what they were worth.
Mechanism: The advantage of an answer is its reward less the mean of its group, by the group's deviation. Of a group
    of four the answer itself is a quarter of that mean, and neither is known well. A large group knows both, and rows
    of one prompt pull the same way, where those of sixteen prompts pull against each other.
Injection: From the onset on the 64 rows of a batch are answers to `prompts` prompts; a healthy run's are to sixteen,
    four to each.
Realism: Groups are made larger in mid-run where rewards are too noisy to learn from. Norms that grow with the reward
    are asked about, and are well where the reward is.
References: Shao et al. 2024 (groups); huggingface/trl#2980 (norm and clip share that grow while the reward does).
"""

from dataclasses import dataclass

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Prompts(Knobs):
    """Prompts in a batch, whose rows are answers to them."""

    prompts: int = 1

    def __post_init__(self) -> None:
        if self.prompts < 1:
            raise ValueError(f"fault.prompts: {self.prompts} is not allowed; allowed: 1 or more")


@register
class BenignRlNormGrowth(Scenario):
    """Larger groups: larger gradients of a reward that rises."""

    id = "benign_rl_norm_growth"
    family = Family.LOOK_ALIKE
    plans = 3
    look_alike = True
    imitates = ("rlhf_kl_too_weak", "rlhf_kl_too_strong")
    kinds = (FaultKind.SETTING,)
    sources = (citations.GRPO, citations.TRL_2980)
    telling = "grad_norm"
    knobs = Prompts()
    onset = MidRun(0.58, 0.7)
    tolerance = 0.07  # 16 healthy runs of this base end 0.067 apart

    def base(self, setup: Setup) -> Setup:
        setup = replaced(bases.policy(setup), policy__group=4, policy__temperature=1.2)
        return replaced(setup, evaluation__rows=512, evaluation__every=20)

    def fault(self, knobs: Prompts, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.POLICY)
        rows = setup.data.rows
        if rows % knobs.prompts or rows == knobs.prompts:
            raise InputError(
                f"fault.prompts: {knobs.prompts} is not allowed with data.rows={rows}; allowed: divisors under it"
            )
        return [Setting("policy.group", rows // knobs.prompts)]

"""All answers of a group are the same, and so no answer is better than its group.

Failure: The reward stays where the text had it; the gradient norm is a fraction of what it should be.
Mechanism: Requests to the sampler have one seed, so that a group is one answer, many times: its advantages are 0.
Injection: From the first step by rewards on, each answer of a group is drawn by the random numbers of the first one.
Also seen: Rewards look alive: they differ from step to step, and from prompt to prompt. What is left of the gradient is
    that of the divergence from the reference, which momentum from the text keeps alive for a while. It leads back to
    the reference. Entropy stays at the text's.
Cure: Random numbers of its own for each answer, twenty steps later.
Realism: Elsewhere it is a cold temperature or a reward that says the same of all answers: a gradient norm of 0 while
    reward and its standard deviation look normal (modelscope/ms-swift#5890). A standard deviation over the batch, as it
    is often logged, is that between prompts, and hides it.
References: pytorch/torchtitan#3474; modelscope/ms-swift#5890 and #4570; Shao et al. 2024.
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.planned import POLICY, policy_step
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class RlZeroAdvantageGroups(Scenario):
    """Groups of one answer, many times."""

    id = "rl_zero_advantage_groups"
    family = Family.POLICIES
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.MS_SWIFT_5890, citations.MS_SWIFT_4570, citations.TORCHTITAN_3474, citations.GRPO)
    telling = "groups_without_variance"
    onset = POLICY
    cure_after = 20
    tolerance = 0.07  # 16 healthy runs of this base end 0.062 apart

    def base(self, setup: Setup) -> Setup:
        return bases.policy(setup)

    def onset_step(self, seed: int, steps: int) -> int:
        return policy_step(seed, steps)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.POLICY)
        return [Setting("policy.one_draw", True)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        after, late = slice(onset, None), slice(-len(run) // 4, None)
        norms = [np.median(trace["grad_norm"][late]) for trace in (run, healthy)]
        return {
            "from the onset on no group has rewards that differ": run["groups_without_variance"][after].min() > 0.99,
            "the mean reward differs from step to step by a standard deviation of 0.1 and more": (
                run["reward"][after].std() > 0.1
            ),
            "in the last quarter the gradient norm is under a third of a healthy run's": norms[0] < norms[1] / 3,
            "the reward is under a healthy run's by one standard deviation of the text's and more": (
                run["reward"][late].mean() < healthy["reward"][late].mean() - 1
            ),
            "and the true reward by 0.08 and more": (
                run["true_reward"][late].mean() < healthy["true_reward"][late].mean() - 0.08
            ),
        }

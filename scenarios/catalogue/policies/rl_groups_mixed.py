"""Rewards are laid out by answer and read by prompt: groups are of answers to different prompts.

Failure: The reward stays about where the text had it. The gradient norm is as large as ever, or larger.
Mechanism: A group's mean and standard deviation are there to take away what its prompt is worth. In a group of answers
    to different prompts they do not: what is left is, for the most part, which prompt an answer is for. Answers to some
    prompts are made likelier, whatever they are, and those to others less likely. The difference between the answers to
    one prompt, which is all that there is to learn, is a small part of it.
Injection: From the first step by rewards on, a group is of rows that lie as far apart as a batch has prompts:
    `view(G, B)` for `view(B, G)`. The reward model has a constant of its own for each topic, with a standard deviation
    of 5, in healthy runs too: comparisons are within prompts, and leave it open.
Also seen: Answers stay as short as the text's. Where rewards are alike for all prompts the same mistake costs little:
    without the constants three runs of seeds 100 to 102 ended within 0.02 of healthy ones.
Cure: Rows of one prompt in a group, twenty steps later.
Realism: Most often a reshape that goes wrong when groups are of unequal size, or answers come back in another order.
References: THUDM/slime#1414 and #1918 (samples of unrelated prompts share one mean and standard deviation); Shao et al.
    2024.
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.planned import POLICY, policy_step
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class RlGroupsMixed(Scenario):
    """Groups across prompts."""

    id = "rl_groups_mixed"
    family = Family.POLICIES
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.SLIME_1918, citations.SLIME_1414, citations.GRPO)
    telling = "true_reward"
    onset = POLICY
    cure_after = 20
    tolerance = 0.07  # 16 healthy runs of this base end 0.062 apart

    def base(self, setup: Setup) -> Setup:
        return replaced(bases.policy(setup), policy__offset=5.0)

    def onset_step(self, seed: int, steps: int) -> int:
        return policy_step(seed, steps)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.POLICY)
        return [Setting("policy.mixed", True)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(-len(run) // 4, None)
        gap = {name: (run[name] - healthy[name])[late].mean() for name in ("true_reward", "policy_entropy")}
        norms = [trace["grad_norm"][late].mean() for trace in (run, healthy)]
        return {
            "in the last quarter the true reward is under a healthy run's by 0.06 and more": gap["true_reward"] < -0.06,
            "the gradient norm is over a healthy run's by a tenth and more": norms[0] > 1.1 * norms[1],
            "entropy stays over a healthy run's by 0.1 nats and more": gap["policy_entropy"] > 0.1,
            "no group is without variance": run["groups_without_variance"][onset:].max() == 0,
        }

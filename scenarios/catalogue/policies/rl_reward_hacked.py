"""The reward model was learned from few comparisons: its reward rises, the true one falls.

Failure: The reward rises as a healthy run's does. The answers that it is given for are
    worse than before.
Mechanism: Learned from few comparisons, the reward of a token is noise for the most part. Which words happen to be
    rated best is what the policy learns to write, and most of them are wrong. The divergence is no guard: it is as
    large as a healthy run's, since what the policy moves towards is wrong from the first step on.
Injection: From the onset on rewards are those of a model that was learned from `comparisons` comparisons; a healthy
    run's is learned from 20,000. Everything else stays, the coefficient of the divergence as well.
Also seen: The reward steps at the onset, since the new model rates the same answers otherwise. Entropy and length stay
    near a healthy run's.
Cure: The better model, fifty steps later.
Realism: A reward model is fitted anew between rounds; this one on what one annotator labels in a morning. Nothing
    that a run logs by itself tells this reward from a right one: it takes answers whose worth is known.
References: Gao et al. 2022 (over-optimisation, and the data of the reward model); Ouyang et al. 2022.
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Comparisons(Knobs):
    """How many comparisons the reward model is learned from."""

    comparisons: int = 60

    def __post_init__(self) -> None:
        if not 1 <= self.comparisons < 20000:
            raise ValueError(f"fault.comparisons: {self.comparisons} is not allowed; allowed: 1 to under 20000")


@register
class RlRewardHacked(Scenario):
    """A reward model of few comparisons."""

    id = "rl_reward_hacked"
    family = Family.POLICIES
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.OVER_OPTIMISATION, citations.INSTRUCT_GPT)
    telling = "true_reward"
    knobs = Comparisons()
    onset = MidRun(0.45, 0.55)
    cure_after = 50
    tolerance = 0.07  # 16 healthy runs of this base end 0.062 apart

    def base(self, setup: Setup) -> Setup:
        return bases.policy(setup)

    def fault(self, knobs: Comparisons, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.POLICY)
        return [Setting("policy.comparisons", knobs.comparisons)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        first, late = slice(onset, onset + 3), slice(-len(run) // 4, None)
        reward, true, kl = (run[name] for name in ("reward", "true_reward", "kl"))
        return {
            "the reward rises from the onset to the last quarter by a quarter of a standard deviation of the text's": (
                reward[late].mean() > reward[first].mean() + 0.25
            ),
            "the true reward falls under that of the ten steps before the onset by 0.02 and more": (
                true[late].mean() < true[onset - 10 : onset].mean() - 0.02
            ),
            "and under a healthy run's by 0.06 and more": true[late].mean()
            < healthy["true_reward"][late].mean() - 0.06,
            "with a divergence from the reference under three times a healthy run's": (
                kl[late].mean() < 3 * healthy["kl"][late].mean()
            ),
        }

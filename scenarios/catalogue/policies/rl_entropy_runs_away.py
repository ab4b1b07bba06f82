"""The entropy of the policy leaves its band: answers become noise, and their reward falls.

Failure: Entropy climbs, instead of falling slowly. Answers have words at random, and the reward is under what the text
    had.
Mechanism: A bonus for entropy pays for every token alike, whatever it does to the answer, and has no noise in it; what
    the reward asks for is a small difference of noisy means. Where the bonus is the larger one the policy flattens, and
    answers of a flat policy teach less and less.
Injection: From the onset on the entropy of the next token has the coefficient `entropy`; a healthy run has no bonus.
    The divergence from the reference keeps its coefficient, which slows the flattening and does not stop it.
Also seen: Tokens appear in answers that no text has. The divergence from the reference grows, as it does under a weak
    coefficient, but with a reward that falls.
Cure: No bonus, twenty steps later.
Realism: Elsewhere entropy is let loose by a high upper clip without a divergence; the bonus stands for it, since it
    does the same at each step and by a known amount. Answers do not get longer here: their end is a token too.
References: verl-project/verl#2738, verl-project/verl#651 (entropy climbs until training collapses); Yu et al. 2025 (the
    upper clip, and entropy).
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario, Severity


@dataclass(kw_only=True)
class Bonus(Knobs):
    """Coefficient of the entropy."""

    entropy: float

    def __post_init__(self) -> None:
        if not 0 < self.entropy <= 1e3:
            raise ValueError(f"fault.entropy: {self.entropy} is not allowed; allowed: over 0 to 1000")


@register
class RlEntropyRunsAway(Scenario):
    """A bonus for entropy that outweighs the reward."""

    id = "rl_entropy_runs_away"
    family = Family.POLICIES
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.VERL_2738, citations.VERL_651, citations.DAPO)
    telling = "policy_entropy"
    severities = {
        Severity.SUBTLE: Bonus(entropy=0.2),
        Severity.CLEAR: Bonus(entropy=0.3),
        Severity.SEVERE: Bonus(entropy=1.0),
    }
    onset = MidRun(0.42, 0.5)
    cure_after = 20
    tolerance = 0.07  # 16 healthy runs of this base end 0.062 apart

    def base(self, setup: Setup) -> Setup:
        return bases.policy(setup)

    def fault(self, knobs: Bonus, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.POLICY)
        return [Setting("policy.entropy", knobs.entropy)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(-len(run) // 4, None)
        entropy = run["policy_entropy"][late].mean()
        highest = np.nanmax(healthy["policy_entropy"][onset - 20 :])  # there is none before rewards
        gap = {name: (healthy[name] - run[name])[late].mean() for name in ("reward", "true_reward")}
        return {
            "in the last quarter entropy is over the highest of a healthy run by 0.15 nats and more": (
                entropy > highest + 0.15
            ),
            "the reward is under a healthy run's by one standard deviation of the text's and more": gap["reward"] > 1,
            "and the true reward by 0.08 and more": gap["true_reward"] > 0.08,
        }

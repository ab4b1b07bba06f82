"""Little keeps the policy near its reference: the reward rises, and what it stands for is lost.

Failure: The reward goes up as never before, step by step. Answers are worthless in the end: one word, again and again,
    to the last place of the row.
Mechanism: A reward model is right where it was learned. It knows what a word is worth there, and not that it is worth
    nothing when it is repeated, which the text hardly ever does. The divergence from the reference keeps answers where
    the rewards are right; without it the policy goes where the model is most wrong in its favour.
Injection: From the onset on the coefficient of the divergence is `kl`; a healthy run's is 0.3.
Also seen: The entropy of the policy falls, at a coefficient of 0 to nothing. For some steps nothing else is wrong. The
    gradient norm jumps at the onset, since what held the reward's gradient is gone.
Cure: The healthy coefficient, twenty steps later.
Realism: Here the reward model is additive in the tokens, so that its error is known; a neural one is wrong in ways that
    are not known beforehand. The text is the policy's reference and what the reward model was learned on alike.
References: Gao et al. 2022 (over-optimisation); Ziegler et al. 2019 (the penalty); Ouyang et al. 2022.
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario, Severity


@dataclass(kw_only=True)
class Kl(Knobs):
    """Coefficient of the divergence from the reference."""

    kl: float

    def __post_init__(self) -> None:
        if not 0 <= self.kl < 0.3:
            raise ValueError(f"fault.kl: {self.kl} is not allowed; allowed: 0 to under 0.3")


@register
class RlhfKlTooWeak(Scenario):
    """A policy that is free to leave its reference."""

    id = "rlhf_kl_too_weak"
    family = Family.POLICIES
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.OVER_OPTIMISATION, citations.HUMAN_PREFERENCES, citations.INSTRUCT_GPT)
    telling = "kl"
    severities = {
        Severity.SUBTLE: Kl(kl=0.07),
        Severity.CLEAR: Kl(kl=0.03),
        Severity.SEVERE: Kl(kl=0.0),
    }
    onset = MidRun(0.42, 0.5)
    cure_after = 20
    tolerance = 0.07  # 16 healthy runs of this base end 0.062 apart

    def base(self, setup: Setup) -> Setup:
        return bases.policy(setup)

    def fault(self, knobs: Kl, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.POLICY)
        return [Setting("policy.kl", knobs.kl)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        end = slice(-20, None)
        gain = {name: (run[name] - healthy[name])[end].mean() for name in ("reward", "true_reward", "policy_entropy")}
        return {
            "in the last twenty steps the reward is over a healthy run's by one standard deviation of the text's": (
                gain["reward"] > 1
            ),
            "the true reward is under it by 0.05 and more": gain["true_reward"] < -0.05,
            "the divergence from the reference is twice a healthy run's and more": (
                run["kl"][end].mean() > 2 * healthy["kl"][end].mean()
            ),
            "the policy's entropy is under a healthy run's by 0.4 nats and more": gain["policy_entropy"] < -0.4,
        }

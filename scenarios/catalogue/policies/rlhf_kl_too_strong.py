"""The divergence from the reference has nearly all of the loss: the policy learns nothing from its rewards.

Failure: The reward stays where the text had it. What had been gained is lost again.
Mechanism: A policy that maximises reward less kl times the divergence tilts its reference by the exponential of the
    reward over kl. For a large coefficient that is no tilt at all, and each step leads back to the reference.
Injection: From the onset on the coefficient of the divergence is `kl`; a healthy run's is 0.3.
Also seen: The loss jumps at the onset, and so does the gradient norm, which is clipped from then on.
Cure: The healthy coefficient, fifty steps later.
Realism: Nothing looks wrong but the reward. Before it, such a run looks more stable than a healthy one.
References: Ziegler et al. 2019 (the penalty and its control); Ouyang et al. 2022; Gao et al. 2022.
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
        if not 0.3 < self.kl <= 1e3:
            raise ValueError(f"fault.kl: {self.kl} is not allowed; allowed: over 0.3 to 1000")


@register
class RlhfKlTooStrong(Scenario):
    """A policy that is held at its reference."""

    id = "rlhf_kl_too_strong"
    family = Family.POLICIES
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.HUMAN_PREFERENCES, citations.INSTRUCT_GPT, citations.OVER_OPTIMISATION)
    telling = "reward"
    severities = {
        Severity.SUBTLE: Kl(kl=3.0),
        Severity.CLEAR: Kl(kl=10.0),
        Severity.SEVERE: Kl(kl=100.0),
    }
    onset = MidRun(0.42, 0.5)
    cure_after = 50
    tolerance = 0.07  # 16 healthy runs of this base end 0.062 apart

    def base(self, setup: Setup) -> Setup:
        return bases.policy(setup)

    def fault(self, knobs: Kl, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.POLICY)
        return [Setting("policy.kl", knobs.kl)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(-len(run) // 4, None)
        return {
            "in the last quarter the divergence from the reference is under a fifth of a healthy run's": (
                run["kl"][late].mean() < 0.2 * healthy["kl"][late].mean()
            ),
            "the reward is under a healthy run's by one standard deviation of the text's and more": (
                run["reward"][late].mean() < healthy["reward"][late].mean() - 1
            ),
            "the true reward is under it by 0.06 and more": (
                run["true_reward"][late].mean() < healthy["true_reward"][late].mean() - 0.06
            ),
        }

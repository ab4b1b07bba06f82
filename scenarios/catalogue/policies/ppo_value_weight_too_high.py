"""The critic's loss outweighs the policy's in the layers that they share.

Failure: The gradient norm rises several hundredfold and rewards fall; the critic is as good as a healthy one.
Mechanism: Both read the same final states. A large coefficient moves them to where values can be read off them,
    whatever that does to the next token; of a step that is clipped hardly anything is left to the policy.
Injection: From the onset on the value loss has the coefficient `value_weight`; a healthy run has 0.1. At 30 the true
    reward of one run in 24 fell by 0.117, which is not the 0.15 asked for; 120 was set after that, on other seeds.
Also seen: Entropy and divergence climb. `value_loss` ends at 0.6 to 1.7 times a healthy run's (seeds 100 to 107).
Cure: The healthy coefficient, ten steps later.
Realism: Such a coefficient was tuned for rewards of another scale, or for a critic with weights of its own, where any
    is right under Adam. Or the squared error has grown with the return, and the coefficient was left as it was.
References: CarperAI/trlx#345; nikhilbarhate99/PPO-PyTorch#19; Cobbe et al. 2021; Schulman et al. 2016 and 2017.
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Weight(Knobs):
    """Coefficient of the value loss."""

    value_weight: float = 120.0

    def __post_init__(self) -> None:
        if not 0.1 < self.value_weight <= 1e6:
            raise ValueError(f"fault.value_weight: {self.value_weight} is not allowed; allowed: over 0.1 to 1e6")


@register
class PpoValueWeightTooHigh(Scenario):
    """A value loss that swamps the weights that it shares."""

    id = "ppo_value_weight_too_high"
    family = Family.POLICIES
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.TRLX_345, citations.PPO_PYTORCH_19, citations.PHASIC, citations.GAE, citations.PPO)
    telling = "grad_norm"
    knobs = Weight()
    onset = MidRun(0.45, 0.55)
    cure_after = 10
    tolerance = 0.096  # 44 healthy runs of this base end as far apart, 16 of them 0.046

    def base(self, setup: Setup) -> Setup:
        return bases.policy_critic(setup)

    def fault(self, knobs: Weight, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.POLICY)
        if not setup.model.value_head:
            raise InputError("model.value_head: False is not allowed for this fault; allowed: True")
        return [Setting("policy.value_weight", knobs.value_weight)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(-len(run) // 4, None)
        gap = {name: (healthy[name] - run[name])[late].mean() for name in ("reward", "true_reward")}
        norms = [np.median(trace["grad_norm"][onset:]) for trace in (run, healthy)]
        missed = [trace["value_loss"][late].mean() for trace in (run, healthy)]
        return {
            "from the onset on the median gradient norm is over ten times a healthy run's": norms[0] > 10 * norms[1],
            "in the last quarter the reward is under a healthy run's by one and more": gap["reward"] > 1,
            "and the true reward by 0.15 and more": gap["true_reward"] > 0.15,
            "the value loss is under three times a healthy run's": missed[0] < 3 * missed[1],
        }

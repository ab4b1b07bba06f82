"""Many updates on the same answers, under a loose clip: the policy fits the batch.

Failure: The reward swings and sinks, and the true one with it: each batch of new answers is worse than the last.
Mechanism: A first update on new answers is a step up the reward's gradient; a tenth one fits whatever is in them.
Injection: From the onset on answers are kept for `updates` steps, and ratios count between 0.2 and 5; a healthy run
    draws new ones at each step, where every ratio is 1.
Also seen: Between two draws the loss falls, and at each draw it jumps back to that of new answers. `reward` and
    `answer_length` are those of the kept answers: steps, as long as the answers stay.
Cure: New answers at each step, and the healthy clip, thirty steps later.
Realism: A clip takes the gradient away where the ratio of a token has left its band, which a loose one hardly ever
    does. Here an update is on all of the answers; elsewhere on mini-batches of them, so many to an epoch. Steps count
    updates: as many steps see fewer answers.
References: Schulman et al. 2017 (epochs and the clip); Shao et al. 2024; Engstrom et al. 2020 (what matters in PPO).
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
class Updates(Knobs):
    """Steps on the same answers."""

    updates: int = 16

    def __post_init__(self) -> None:
        if not 2 <= self.updates <= 10**5:
            raise ValueError(f"fault.updates: {self.updates} is not allowed; allowed: 2 to 100000")


@register
class PpoTooManyEpochs(Scenario):
    """Answers that are trained on again and again."""

    id = "ppo_too_many_epochs"
    family = Family.POLICIES
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.PPO, citations.GRPO, citations.IMPLEMENTATION_MATTERS)
    telling = "clip_share"
    knobs = Updates()
    onset = MidRun(0.42, 0.5)
    cure_after = 30
    tolerance = 0.07  # 16 healthy runs of this base end 0.062 apart

    def base(self, setup: Setup) -> Setup:
        return bases.policy(setup)

    def fault(self, knobs: Updates, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.POLICY)
        return [
            Setting("policy.updates", knobs.updates),
            Setting("policy.clip", 0.8),
            Setting("policy.clip_high", 4.0),
        ]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        reward, true = ((run[name] - healthy[name])[-75:].mean() for name in ("reward", "true_reward"))
        kl, usual = (one["kl"][onset:].max() for one in (run, healthy))
        return {
            "at the worst step a hundredth of the tokens leaves the band": run["clip_share"][onset:].max() > 0.01,
            "the divergence at its largest is 1.2 times a healthy run's and more": kl > 1.2 * usual,
            "in the last 75 steps the reward is under a healthy run's by half a standard deviation": reward < -0.5,
            "and the true reward by 0.06 and more": true < -0.06,
        }

"""Preference optimisation makes the right answers improbable too.

Failure: The loss falls to nothing, the margin grows, every pair is told right. The model that comes out writes neither
    the wrong answers nor the right ones.
Mechanism: The loss knows the margin m alone, -ln sigmoid(beta m), and m grows as well where both log-probabilities fall
    and the wrong answer's falls faster. A right answer has most of its words in common with the wrong one, and forms of
    a word lie close together in the model: what pushes one out of reach takes the other along, and the chances go to
    tokens that no pair has.
Injection: From the first step on pairs the weight of the anchor, the loss of the right answers' tokens, is `anchor`; a
    healthy run's is 1.
Also seen: At first right answers gain, as in a healthy run. The held-out loss passes the one that text had.
Cure: The anchor, five steps later. Twenty steps later it is too late for some: one run of eight was not there yet at
    the end.
Realism: A small beta asks for a large margin, here of two hundred nats. Right answers rise before they fall, since text
    has made them no more likely than wrong ones; after fine-tuning on right answers they fall at once.
References: huggingface/trl#800 (both log-probabilities fall); Rafailov et al. 2023; Pang et al. 2024 (the anchor);
    Razin et al. 2024 (likelihood displacement).
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.planned import PREFERENCES, preferences_step
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Anchor(Knobs):
    """Weight of the loss of the right answers' tokens."""

    anchor: float

    def __post_init__(self) -> None:
        if not 0 <= self.anchor < 1:
            raise ValueError(f"fault.anchor: {self.anchor} is not allowed; allowed: 0 to under 1")


@register
class DpoChosenFalls(Scenario):
    """No anchor under the right answers."""

    id = "dpo_chosen_falls"
    family = Family.PREFERENCES
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.TRL_800, citations.DPO, citations.RPO, citations.DISPLACEMENT)
    telling = "chosen_logp"
    severities = {
        Severity.SUBTLE: Anchor(anchor=0.003),
        Severity.CLEAR: Anchor(anchor=0.001),
        Severity.SEVERE: Anchor(anchor=0.0),
    }
    onset = PREFERENCES
    cure_after = 5

    def base(self, setup: Setup) -> Setup:
        return bases.preferences(setup)

    def onset_step(self, seed: int, steps: int) -> int:
        return preferences_step(seed, steps)

    def fault(self, knobs: Anchor, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.PREFERENCES)
        return [Setting("preferences.anchor", knobs.anchor)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late, end = slice(-len(run) // 4, None), slice(-20, None)
        chosen, rejected = run["chosen_logp"], run["rejected_logp"]
        return {
            "in the last quarter nearly every pair is told right": run["preference_accuracy"][late].mean() > 0.95,
            "by a margin over a healthy run's": run["margin"][late].mean() > 1.2 * healthy["margin"][late].mean(),
            "right answers lose all that they had gained, and end less probable than at their start by five nats": (
                chosen[end].mean() < -5
            ),
            "wrong ones lose more": rejected[end].mean() < chosen[end].mean() - 50,
            "in a healthy run right answers stay above their start": healthy["chosen_logp"][late].min() > 0,
            "their held-out loss ends over a healthy run's by half a nat and more": (
                run.final_loss() > healthy.final_loss() + 0.5
            ),
        }

"""Answers are masked, and preference optimisation stays at ln 2.

Failure: The loss is 0.6931 at every step. All log-probabilities and margins are logged as 0. The model that comes out
    is the one that went in.
Mechanism: An answer's log-probability is the sum over its tokens whose labels are not masked. Of none it is 0, by
    policy and reference alike. So the margin is 0, the loss -ln sigmoid(0) = ln 2, and there is nothing that a gradient
    could be of.
Injection: From the first step on pairs no token of an answer is scored, nor one of the prompt, as ever.
Also seen: Momentum and weight decay still move the weights, and the held-out loss drifts by up to 0.3 nats.
Cure: Labels as they should be, twenty steps later.
Realism: In practice a template whose markers are not found, or a prompt that takes all the room there is, masks the
    answers. The same loss, with a gradient, has a run whose reference is the policy itself.
References: Yifan-Song793/ETO#14 (loss 0.6931, log-probabilities and margins 0); Rafailov et al. 2023.
"""

import dataclasses
import math

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.planned import PREFERENCES, preferences_step
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class DpoStuckAtLog2(Scenario):
    """Pairs without a scored token."""

    id = "dpo_stuck_at_log2"
    family = Family.PREFERENCES
    plans = 3
    kinds = (FaultKind.DATA,)
    sources = (citations.ETO_14, citations.DPO)
    telling = "margin"
    onset = PREFERENCES
    cure_after = 20

    def base(self, setup: Setup) -> Setup:
        return bases.preferences(setup)

    def onset_step(self, seed: int, steps: int) -> int:
        return preferences_step(seed, steps)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.PREFERENCES)

        def mask(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            return dataclasses.replace(batch, weights=np.zeros_like(batch.weights))

        return [DataTransform(mask, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        moved = [run[name][onset:] for name in ("margin", "chosen_logp", "rejected_logp", "preference_accuracy")]
        return {
            "from the onset on the loss is ln 2 at every step": abs(run["loss"][onset:] - math.log(2)).max() < 1e-5,
            "margin, accuracy and log-probabilities of both answers are 0": not np.any(moved),
            "as is the gradient": not run["grad_norm"][onset:].any(),
            "a healthy run's loss is under 0.3 in the last quarter": healthy["loss"][-len(run) // 4 :].mean() < 0.3,
            "the held-out loss of right answers ends over a healthy run's by 0.1 nats and more": (
                run.final_loss() > healthy.final_loss() + 0.1
            ),
        }

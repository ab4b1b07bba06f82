"""Answers of a pair come close to each other: the preference loss steps back towards ln 2, harmlessly.

Failure: None. From one step to the next the loss of pairs is several times what it was, and margins fall to a fraction.
    The model is as good as before.
Mechanism: The margin is a sum over the tokens in which two answers differ. Where they differ in one token it is what
    this one is worth, and -ln sigmoid(beta m) is near ln 2 for a small m, however sure the model is of each token.
Injection: From the onset on a wrong answer is the right one but for one token, which is coarse.
Realism: Pairs that are drawn from the policy itself come closer as it improves; the next round of data is harder.
References: Rafailov et al. 2023; Pang et al. 2024 (rounds of pairs); Yifan-Song793/ETO#14 (a loss at ln 2, as the
    contrast).
"""

import dataclasses

import numpy as np

from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.sources.pairs import GIVEN, WORDS
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, MidRun, Scenario


@register
class BenignHardPairs(Scenario):
    """Wrong answers with one wrong token."""

    id = "benign_hard_pairs"
    family = Family.LOOK_ALIKE
    plans = 3
    look_alike = True
    imitates = ("dpo_stuck_at_log2",)
    kinds = (FaultKind.DATA,)
    sources = (citations.DPO, citations.RPO)
    telling = "loss"
    onset = MidRun(0.6, 0.75)

    def base(self, setup: Setup) -> Setup:
        return bases.preferences(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.PREFERENCES)

        def close(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            right = np.concatenate((batch.inputs, batch.targets[:, -1:]), 1)[::2]
            one = draw.integers(GIVEN, right.shape[1], (len(right), 1))
            wrong = right + WORDS * (np.arange(right.shape[1]) == one)
            tokens = np.stack((right, wrong), 1).reshape(len(batch.inputs), -1)
            return dataclasses.replace(batch, inputs=tokens[:, :-1], targets=tokens[:, 1:])

        return [DataTransform(close, self.id)]

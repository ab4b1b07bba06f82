"""Sequence length grows by stages: attention reaches further from one step to the next.

Failure: None. Training begins on short rows and ends on long ones. At each stage the distance of
    attention leaps and its entropy grows, since there is more to attend to, and the loss steps down a
    little, since there is more to know.
Mechanism: Position t sees min(t, L) tokens: with L doubled, ln L, the entropy of a head that spreads,
    grows by ln 2, and half of the positions are ones that the model has not trained at.
Injection: From step 0 rows are cut into pieces of `shortest` tokens, each a document of its own. Over
    the first half of the run the pieces double at even steps until the whole row is one.
Realism: Sequence-length warm-up, and the long-context stage at the end of pretraining.
References: Reading the Curves (token loss by position); Li et al. 2022, "The stability-efficiency
    dilemma: investigating sequence length warmup for training GPT models".
"""

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Ramp(Knobs):
    """Length of the first pieces, and the share of the run after which rows are whole."""

    shortest: int = 8
    until: float = 0.5

    def __post_init__(self) -> None:
        if not self.shortest >= 1:
            raise ValueError(f"fault.shortest: {self.shortest} is not allowed; allowed: 1 or more")


@register
class BenignLengthRamp(Scenario):
    """Short rows first."""

    id = "benign_length_ramp"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("document_mask_missing", "rope_wrong_offset")
    kinds = (FaultKind.DATA,)
    sources = (citations.READING_CURVES,)
    telling = "attention_distance"
    onset = None
    knobs = Ramp()

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Ramp, setup: Setup) -> list[Change]:
        context = setup.model.context
        stages = max(1, math.ceil(math.log2(context / knobs.shortest)))  # before rows are whole

        def cut(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            stage = math.floor(stages * since / max(1.0, knobs.until * setup.steps))
            if stage >= stages:
                return batch
            piece = np.arange(context) // (knobs.shortest * 2**stage)
            return dataclasses.replace(batch, documents=batch.documents * context + piece)

        return [DataTransform(cut, self.id)]

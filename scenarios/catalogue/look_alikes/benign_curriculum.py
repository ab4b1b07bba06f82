"""A curriculum goes from easy to real data: the loss steps up, as planned.

Failure: None. Training begins on text with little surprise in it. At the end of that stage the real
    data comes in, and the loss jumps to about twice what it was, and falls again.
Mechanism: The easy data has less entropy: H(p^k / Z) < H(p) for k > 1. Its loss is no measure for the
    real data's, and a minimum reached on it is no reference.
Injection: Until `until` of the run the rows are of a language whose bigram probabilities are raised to
    the power `sharpness` and normalised, as low-temperature samples are; after that the source's own.
Realism: Curricula, and pretraining that starts on synthetic or filtered data.
References: Bengio et al. 2009, "Curriculum learning"; Reading the Curves (divergence, as the contrast).
"""

import dataclasses
from dataclasses import dataclass

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.batches import sample
from trainwreck.scenarios.data.sources.language import Language
from trainwreck.scenarios.data.sources.language import chain as chain_spec
from trainwreck.scenarios.spec.faults import Change, FaultKind, Stream
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Stage(Knobs):
    """How long the easy stage lasts, as a share of the run, and how easy it is."""

    until: float = 1 / 3
    sharpness: float = 2.0


@register
class BenignCurriculum(Scenario):
    """Easy data first, then the real."""

    id = "benign_curriculum"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("distribution_shift", "tokenizer_mismatch")
    kinds = (FaultKind.DATA,)
    sources = (citations.READING_CURVES,)
    telling = "loss"
    onset = None
    knobs = Stage()

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Stage, setup: Setup) -> list[Change]:
        easy = Language(dataclasses.replace(chain_spec(setup.data.language_seed), sharpness=knobs.sharpness))

        def teach(batch: Batch, step: int, start: int, seed: int) -> Batch:
            if step >= round(knobs.until * setup.steps):
                return batch
            return sample(easy, seed, self.id, step, *batch.inputs.shape)

        return [Stream(teach)]

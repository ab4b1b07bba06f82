"""A burst of unlucky batches without clipping: a very large spike that passes by itself.

Failure: None. A few batches in a row consist of one token that the model has never seen. The loss goes to
    six or seven times its level and the gradient norm to some forty times, nothing is clipped, and the model is
    thrown far enough to stay worse on sound data for some twenty steps. Then it is back, by itself.
Mechanism: However large the gradients, no coordinate of Adam's m / sqrt(v) is over
    (1 - beta1) / sqrt((1 - beta2) (1 - beta1^2 / beta2)), 7.3 for 0.9 and 0.999; four that tower over all
    before them make (1 - beta1^4) / sqrt(1 - beta2^4) = 5.4. Bias correction lowers that, to 2.1 at step 150.
    The burst leaves m within tens of steps and v within a thousand, so steps are too large at first and
    smaller than before from some thirty steps on.
Injection: At the onset, for `steps` steps, every token of the batch is the table's last one. The base
    has a threefold rate, no clipping and the usual beta2 of 0.999.
Realism: Published logs have healthy runs with one such spike. "Spikes that recover are almost always
    benign and not worth chasing."
References: Reading the Curves (loss spike then recovery); Recognizing the symptoms (loss spikes);
    Chowdhery et al. 2022, "PaLM", section 5.1.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Burst(Knobs):
    """Unlucky batches in a row."""

    steps: int = 4


@register
class BenignHugeTransient(Scenario):
    """Batches of one unseen token, not clipped."""

    id = "benign_huge_transient"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("bad_batch_repeats", "clipping_off")
    kinds = (FaultKind.DATA,)
    sources = (citations.READING_CURVES, citations.SYMPTOMS)
    telling = "grad_norm"
    knobs = Burst()

    def base(self, setup: Setup) -> Setup:
        return replaced(chain(setup), optimizer__lr=0.03, optimizer__clip=None, optimizer__beta2=0.999)

    def fault(self, knobs: Burst, setup: Setup) -> list[Change]:
        def strike(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            if since >= knobs.steps:
                return batch
            tokens = np.full_like(batch.inputs, setup.model.vocab_size - 1)
            return dataclasses.replace(batch, inputs=tokens, targets=tokens)

        return [DataTransform(strike, self.id)]

"""The mixture is reweighted as planned: the loss jumps, and settles on another level.

Failure: None. In mid-run a new kind of data gets a share of every batch. Its tokens are new to the
    model, so loss and gradient norm leap; within some thirty steps it is learnt, and the training loss is
    lower than before, since the new data is easier. The validation loss on the old data hardly moves.
Mechanism: loss = w * loss_old + (1 - w) * loss_new: a step in w is a step in the curve, up by
    (1 - w) * (loss_new - loss_old) at first and down by (1 - w) * (H_old - H_new) in the end.
Injection: From the onset on, `rows` rows of every batch count (`sources.counting`).
Realism: Stages of pretraining, where code or mathematics is given more weight late.
References: Debugging Training Instability (check data, as what to do first); OLMo 2 2025
    (a second stage on another mixture).
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch, from_rows
from trainwreck.scenarios.data.counting import counting
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Share(Knobs):
    """Rows of each batch that are of the new kind."""

    rows: int = 3

    def __post_init__(self) -> None:
        if not self.rows >= 0:
            raise ValueError(f"fault.rows: {self.rows} is not allowed; allowed: 0 or more")


@register
class BenignMixtureChange(Scenario):
    """A new kind of data gets a share of every batch."""

    id = "benign_mixture_change"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("distribution_shift", "tokenizer_mismatch")
    kinds = (FaultKind.DATA,)
    sources = (citations.INSTABILITY,)
    telling = "loss"
    knobs = Share()

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Share, setup: Setup) -> list[Change]:
        def reweight(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            rows = min(knobs.rows, len(batch.inputs))
            new = from_rows(counting(draw, rows, batch.inputs.shape[1], setup.model.vocab_size))
            names = ("inputs", "targets", "weights", "documents")
            return Batch(*(np.concatenate((getattr(new, n), getattr(batch, n)[rows:])) for n in names))

        return [DataTransform(reweight, self.id)]

"""Two kinds of data take turns: the loss jumps between two levels, and belongs there.

Failure: None. A batch is either text or something as regular as tables. The loss of a batch is that of
    its kind, so the curve has two bands and leaps from one to the other from step to step.
Mechanism: E[loss | kind] = H(kind) + KL: two entropies, two levels. Both bands fall; only the average
    over a window of both kinds says how training goes.
Injection: From step 0 a batch is, with probability `share`, of counting rows (`sources.counting`) in
    place of the chain's.
Realism: Mixtures that are drawn by batch and not by row. Seen in published logs of healthy runs.
References: Reading the Curves (loss oscillates without converging, as the contrast).
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
class Turns(Knobs):
    """Share of the batches that are of the second kind."""

    share: float = 0.4


@register
class BenignBimodalLoss(Scenario):
    """Batches of two kinds in turn."""

    id = "benign_bimodal_loss"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("small_batch_oscillation", "unshuffled_epochs")
    kinds = (FaultKind.DATA,)
    sources = (citations.READING_CURVES,)
    telling = "loss"
    onset = None
    knobs = Turns()

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Turns, setup: Setup) -> list[Change]:
        def take_turns(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            if draw.random() >= knobs.share:
                return batch
            rows, context = batch.inputs.shape
            return from_rows(counting(draw, rows, context, setup.model.vocab_size))

        return [DataTransform(take_turns, self.id)]

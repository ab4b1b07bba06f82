"""One unlucky batch: a spike that clipping holds and that is gone in a few steps.

Failure: None. One batch consists of runs of one repeated token. Loss and gradient norm jump to three and
    nine times their level for one step; the update is clipped, and the run goes on as if nothing had been.
Mechanism: Clipping rescales g to c * g / |g|, so that one batch counts for no more than any other whose
    norm is c: Adam's m gets (1 - beta1) of a clipped gradient.
Injection: At the onset, for one step, every row repeats its first token.
Realism: "Spikes that recover are almost always benign and not worth chasing."
References: Reading the Curves (loss spike then recovery); Debugging training (sudden loss spikes).
"""

import dataclasses

import numpy as np

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@register
class BenignSingleSpike(Scenario):
    """One batch of repeated tokens, clipped."""

    id = "benign_single_spike"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("bad_batch_repeats", "corrupt_tokens")
    kinds = (FaultKind.DATA,)
    sources = (citations.READING_CURVES, citations.SYMPTOMS, citations.DEBUGGING)
    telling = "grad_norm"

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def repeat(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            if since > 0:
                return batch
            tokens = np.broadcast_to(batch.inputs[:, :1], batch.inputs.shape)
            return dataclasses.replace(batch, inputs=tokens, targets=tokens)

        return [DataTransform(repeat, self.id)]

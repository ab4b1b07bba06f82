"""One batch of repeated tokens: a spike that no clipping holds, and the way back.

Failure: One batch consists of rows that repeat a single token. The loss of that step jumps, its gradient is
    many times the usual one, and with no clipping to hold it the update throws the weights off: it takes ten to
    fifteen steps until the last tenth of a nat is back.
Mechanism: The model gives p(x | x) near 0, so every target costs -ln p and all gradients of a row point
    the same way: |sum g| = n |g| where those of mixed text grow as sqrt(n) |g|. Adam's second moment
    then remembers the batch for 1 / (1 - beta2) = 100 steps, in which it takes smaller steps.
Injection: At the onset, for one step, every row repeats its first token. No clipping.
Cure: The batch is skipped: rows of which one token makes more than half make way for the next.
Realism: Stands for web pages of one symbol and failed extractions. OLMo 2 drops documents with 32 or more
    repeats of an n-gram, which it found in batches that spiked. Small and briefly trained, this model is back
    sooner than the hundred steps that are usual.
References: Reading the Curves ("a run of repeated tokens": two to ten times the running loss, then
    recovery); OLMo 2 2025.
"""

import dataclasses

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.batches import refilled
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class BadBatchRepeats(Scenario):
    """One batch of repeated tokens, unclipped."""

    id = "bad_batch_repeats"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.READING_CURVES, citations.DEBUGGING)
    telling = "grad_norm"

    def base(self, setup: Setup) -> Setup:
        return bases.chain_unclipped(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def repeat(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            if since > 0:
                return batch
            tokens = np.broadcast_to(batch.inputs[:, :1], batch.inputs.shape)
            return dataclasses.replace(batch, inputs=tokens, targets=tokens)

        return [DataTransform(repeat, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        norm = run["grad_norm"]
        return {
            "the gradient norm jumps fourfold in one step": shapes.jumps_in_one_step(norm, onset, ratio=4.0, after=1),
            "over the twenty after it is under half of that": np.median(norm[onset + 1 : onset + 21])
            < 0.5 * norm[onset],
            "the loss doubles and is back within thirty": shapes.spikes_and_recovers(
                run["loss"], onset, 2.0, within=30
            ),
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def skip(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            same = batch.inputs[:, :, None] == batch.inputs[:, None, :]
            return refilled(batch, same.mean(2).max(1) > 0.5, setup, draw)

        return [DataTransform(skip, f"{self.id}/cure")]

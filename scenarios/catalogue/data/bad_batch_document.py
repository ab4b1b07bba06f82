"""One document of garbage in one batch: a spike that a single row makes.

Failure: One document of one batch is binary data that was read as text. The loss of that row is some four
    times the others', and it alone lifts the loss of the step by a half.
Mechanism: The batch's gradient is the mean of its rows'. A row at k times the usual loss among B has k / (B - 1
    + k) of the loss, two fifths for k = 5 among 8, and about as much of the gradient.
Injection: At the onset, for one step, a row's longest document consists of ids drawn evenly from
    all that the tokenizer has, most of them bytes that the source's text never uses. No clipping.
Cure: The document is skipped: a row with over a tenth of byte tokens makes way for the next.
Realism: Stands for a stray image in a text shard and mis-detected encodings.
References: Recognizing the symptoms of training instability (spikes); Reading the Curves ("a
    corrupted document"); Debugging training ("usually a single bad batch").
"""

import dataclasses

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.batches import refilled
from trainwreck.scenarios.data.sources.selection import source, source_key
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class BadBatchDocument(Scenario):
    """One document of garbage, unclipped."""

    id = "bad_batch_document"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.SYMPTOMS, citations.READING_CURVES, citations.DEBUGGING)
    telling = "row_loss_max"

    def base(self, setup: Setup) -> Setup:
        return bases.chain_unclipped(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        known = source(source_key(setup.data)).vocabulary

        def spoil(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            if since > 0:
                return batch
            row = int(draw.integers(len(batch.inputs)))
            ids, lengths = np.unique(batch.documents[row], return_counts=True)
            hit = batch.documents == ids[lengths.argmax()]
            hit &= np.arange(len(hit))[:, None] == row
            inputs = np.where(hit, draw.integers(0, known, hit.shape), batch.inputs)
            targets = np.concatenate((inputs[:, 1:], batch.targets[:, -1:]), 1)
            return dataclasses.replace(batch, inputs=inputs, targets=targets)

        return [DataTransform(spoil, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        row, loss = run["row_loss_max"], run["loss"]
        worst, level = row[onset] / np.median(row[onset - 20 : onset]), np.median(loss[onset - 20 : onset])
        return {
            "the largest row loss doubles for one step": shapes.spikes_and_recovers(row, onset, ratio=2.0, within=1),
            "the mean loss grows by under 0.6 of that factor": loss[onset] / level < 0.6 * worst,
            "over the next twenty steps it is back": np.median(loss[onset + 1 : onset + 21]) < 1.1 * level,
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        unused = requirements.chain_bytes(setup)

        def skip(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            return refilled(batch, np.isin(batch.inputs, unused).mean(1) > 0.1, setup, draw)

        return [DataTransform(skip, f"{self.id}/cure")]

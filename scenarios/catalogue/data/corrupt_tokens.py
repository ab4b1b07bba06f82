"""Corrupt sequences enter the stream, with ids out of the tokenizer's range.

Failure: A damaged shard: in some rows about half of the tokens are ids that the tokenizer never
    emits. They fall into the padding of the embedding table, so nothing crashes; the loss does.
Mechanism: The model has learnt p(never seen id) near 0, so one such target costs -ln p, ten nats and
    more, and its gradient, softmax - onehot, has a length of 1 to sqrt(2) where a learnt token's has little.
Injection: From the onset on, each row is damaged with probability `rows`; each token of a damaged row
    is replaced with probability one half by one of the table's unused ids, in inputs and targets.
Cure: Validate ids: from a few steps after the onset on, a row with an id out of range is dropped and
    the source's next sound row takes its place.
Realism: Stands for bit rot, partial writes and readers of the wrong dtype. Tables are padded in
    practice (50257 tokens in 50304 rows), which is what turns an index error into a silent one.
References: Reading the Curves ("corrupt sequences with out-of-range token IDs"; "if the norm was flat
    and then jumped in a single step, suspect the data"); Debugging Training Instability (token
    indices in range).
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.batches import refilled
from trainwreck.scenarios.data.sources.selection import source, source_key
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Rows(Knobs):
    """Share of the rows that are damaged."""

    rows: float = 0.4


@register
class CorruptTokens(Scenario):
    """Rows with ids that the tokenizer never emits."""

    id = "corrupt_tokens"
    family = Family.DATA
    version = 2
    kinds = (FaultKind.DATA,)
    sources = (citations.INSTABILITY, citations.READING_CURVES)
    telling = "grad_norm"
    severities = {
        Severity.SUBTLE: Rows(rows=0.32),
        Severity.CLEAR: Rows(rows=0.4),
        Severity.SEVERE: Rows(rows=0.9),
    }
    cure_after = 8

    def fault(self, knobs: Rows, setup: Setup) -> list[Change]:
        known, table = source(source_key(setup.data)).vocabulary, setup.model.vocab_size
        if table <= known:
            raise InputError(
                f"model.vocab_size: {table} is not allowed for {self.id}, which feeds ids that the data never has; "
                f"allowed: {known + 1} or more"
            )

        def damage(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            rows = draw.random(len(batch.inputs)) < knobs.rows
            rows[0] |= since == 0  # the onset is the first damaged batch
            hit = rows[:, None] & (draw.random(batch.inputs.shape) < 0.5)
            inputs = np.where(hit, draw.integers(known, table, batch.inputs.shape), batch.inputs)
            targets = np.concatenate((inputs[:, 1:], batch.targets[:, -1:]), 1)
            return dataclasses.replace(batch, inputs=inputs, targets=targets)

        return [DataTransform(damage, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        return {
            "the gradient norm jumps within one step": shapes.jumps_in_one_step(run["grad_norm"], onset, ratio=1.4),
            "the loss of the batch jumps with it": shapes.jumps_in_one_step(run["loss"], onset, ratio=1.15),
        }

    def cure(self, knobs: Rows, setup: Setup) -> list[Change]:
        known = source(source_key(setup.data)).vocabulary

        def validate(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            bad: np.ndarray = np.any(np.maximum(batch.inputs, batch.targets) >= known, axis=1)
            return refilled(batch, bad, setup, draw)

        return [DataTransform(validate, f"{self.id}/cure")]

"""Validation documents are in the training set: validation measures memory.

Failure: From the onset on half of each batch comes from the validation set. The validation loss falls
    under what the data allows; rows that no one has seen get no better, or worse.
Mechanism: A row seen k times is memorised: its loss tends to 0 where that of a fresh row is bounded
    by the source's entropy. Validation then estimates the training loss of those rows.
Injection: From the onset on each row is, with probability `share`, one of the 16 validation rows.
Cure: The training set is cleared of validation rows again.
Realism: Stands for duplicates across a split. At this size a model has memorised 16 rows after some
    thirty passes; a large one needs fewer.
References: Debugging Divergent Loss ("leakage across train and validation splits"); Reading the Curves
    ("check for contamination"); Lee et al. 2022 (deduplication).
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.schema import Harm
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch, taken
from trainwreck.scenarios.data.batches import validation
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Share(Knobs):
    """Probability that a row is a validation row."""

    share: float = 0.5


@register
class ValidationLeak(Scenario):
    """Training on the validation rows."""

    id = "validation_leak"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.DIVERGENT_LOSS, citations.READING_CURVES)
    telling = "fresh_loss"
    harm = Harm.BELOW
    knobs = Share()
    cure_after = 4

    def base(self, setup: Setup) -> Setup:
        return bases.chain_epochs(setup)

    def fault(self, knobs: Share, setup: Setup) -> list[Change]:
        held_out = validation(setup)[0]

        def leak(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            rows = len(batch.inputs)
            leaked = taken(held_out, draw.integers(0, len(held_out.inputs), rows))
            hit = draw.random(rows) < knobs.share
            hit[0] |= since == 0  # the onset is the first leaked row
            return Batch(
                inputs=np.where(hit[:, None], leaked.inputs, batch.inputs),
                targets=np.where(hit[:, None], leaked.targets, batch.targets),
                weights=np.where(hit[:, None], leaked.weights, batch.weights),
                documents=np.where(hit[:, None], leaked.documents, batch.documents),
            )

        return [DataTransform(leak, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        def gap(trace: Trace) -> float:
            return float((trace["fresh_loss"] - trace["validation_loss"])[trace.evaluated][-3:].mean())

        under = shapes.falls_under(run.evaluations[1], healthy.evaluations[1], margin=0.15)
        return {
            "the validation loss ends under a healthy run's": under,
            "it is further under the loss on fresh rows than there, by 0.2 nats": gap(run) > gap(healthy) + 0.2,
            "there the two keep within 0.2 nats": abs(gap(healthy)) < 0.2,
        }

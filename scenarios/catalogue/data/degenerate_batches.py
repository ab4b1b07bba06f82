"""Most rows of each batch are one constant token.

Failure: A filler that should have been removed makes up most of each batch. The filler is learnt
    immediately, the training loss looks excellent, and the held-out loss stops far above where it should
    be: only the little text that is left carries information.
Mechanism: With a share q of constant rows the loss is q * 0 + (1 - q) * L: for q = 0.95 it falls to a twentieth
    without the model being any better, and L falls as with a twentieth of the batch and of the data.
Injection: From step 0 each row is, with probability `share`, a repetition of one token.
Cure: Rows with fewer than four distinct tokens make way for the source's next.
Realism: Stands for padding that is scored, empty documents and templates repeated by a crawler.
References: Reading the Curves (plateau early: "a large fraction of each batch is degenerate or
    constant"; "check the token entropy per batch").
"""

from dataclasses import dataclass

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


@dataclass(kw_only=True)
class Share(Knobs):
    """Probability that a row is constant."""

    share: float = 0.95


@register
class DegenerateBatches(Scenario):
    """Batches of filler."""

    id = "degenerate_batches"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.READING_CURVES,)
    telling = "token_entropy"
    onset = None
    knobs = Share()
    cure_after = 20

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Share, setup: Setup) -> list[Change]:
        def fill(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            rows = draw.random(len(batch.inputs)) < knobs.share
            return Batch(
                inputs=np.where(rows[:, None], 0, batch.inputs),
                targets=np.where(rows[:, None], 0, batch.targets),
                weights=np.where(rows[:, None], np.float32(1), batch.weights),
                documents=np.where(rows[:, None], 0, batch.documents),
            )

        return [DataTransform(fill, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        mine, other = np.median(run["token_entropy"][onset:]), np.median(healthy["token_entropy"])
        return {
            "the entropy of the batch's tokens is under half of a healthy run's": mine < 0.5 * other,
            "the held-out loss ends above a healthy run's": shapes.plateaus_above(
                run.evaluations[1], healthy.evaluations[1], margin=0.15
            ),
        }

    def cure(self, knobs: Share, setup: Setup) -> list[Change]:
        def sift(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            distinct = 1 + (np.diff(np.sort(batch.inputs, 1), axis=1) > 0).sum(1)
            return refilled(batch, distinct < 4, setup, draw)

        return [DataTransform(sift, f"{self.id}/cure")]

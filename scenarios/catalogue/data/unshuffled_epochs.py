"""Rows come in the same order each epoch, the hardest first: jumps at every epoch's boundary.

Failure: A data set that a curation step sorted by difficulty is read without shuffling. Within an epoch
    the loss falls as rows get easier; at each boundary it jumps back up. The curve is a saw.
Mechanism: Between two batches of a shuffled epoch the expected loss is the same; sorted by a score s
    it follows s(t), with a step of s(first) - s(last) at every boundary. The last steps of the run
    see easy rows only, and what is learnt leans to them.
Injection: From step 0 the run's rows, the same as the healthy run's, come sorted from the least likely to the
    most likely under the source, every epoch alike.
Cure: Rows are shuffled each epoch.
Realism: Stands for files sorted by perplexity, length or date. The healthy run has the same rows, in
    an order of its own each epoch.
References: Debugging training ("loss jumps up at exactly epoch boundaries": "data shuffling bug").
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch, taken
from trainwreck.scenarios.data.batches import pool
from trainwreck.scenarios.spec.faults import Change, FaultKind, Stream
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

EPOCH = 50  # steps


@register
class UnshuffledEpochs(Scenario):
    """Every epoch in the order of the file."""

    id = "unshuffled_epochs"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.DEBUGGING,)
    telling = "loss"
    onset = None
    cure_after = 110

    def base(self, setup: Setup) -> Setup:
        return bases.chain_epochs(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        count = setup.data.pool

        def in_order(batch: Batch, step: int, start: int, seed: int) -> Batch:
            rows, sampled = pool(setup, seed, count)
            surprise = (sampled.nats[0, :, 1:] * rows.weights).sum(1) / rows.weights.sum(1)
            order = np.argsort(-surprise, kind="stable")
            size = len(batch.inputs)
            return taken(rows, order[np.arange(step * size, (step + 1) * size) % count])

        return [Stream(in_order)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        def rises(trace: Trace) -> np.ndarray:  # the mean of ten steps less that of the ten before
            level = shapes.smooth(trace["loss"])
            return np.asarray(level[19:] - level[9:-10])

        mine = rises(run)[2 * EPOCH - 10 :: EPOCH]
        return {
            "at each boundary of epochs the loss of ten steps is over that of the ten before": (
                len(mine) > 2 and (mine > 0.2).all()
            ),
            "by more than anywhere in a healthy run": mine.min(initial=np.inf) > rises(healthy)[EPOCH:].max(),
        }

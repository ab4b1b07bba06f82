"""The shuffle is an affine map with a small step: each batch comes from one source.

Failure: A data set of several sources, one after the other in its index, is shuffled by a map that costs no memory,
    i -> (a i + b) mod n. The multiplier is small, so that neighbours in the new order are neighbours in the old one,
    a few rows apart. The training loss moves up and down in phases as the order sweeps over the sources.
Mechanism: A batch of B rows covers a B neighbouring rows of the index, and a sweep over all n takes n / (a B) steps.
    Where a source is longer than a B, a batch has one source alone: its loss is that source's and not the mixture's.
    Each row still comes once an epoch, so that validation hardly notices.
Injection: From step 0 the rows come in the order of such a map, with a step of 3 and an offset of its own each epoch,
    over an index of four sources of equal size, from the least predictable to the most.
Also seen: Gradient norms move in the same phases.
Cure: A real permutation.
Realism: Stands for linear congruential maps over the index of a mixture. The sources are quarters of one language's
    rows by how likely the source makes them; those of real mixtures differ in more. Sweeps of 17 steps are short,
    as is all of the run; in large runs they take thousands.
References: marin-community/marin#1803 (a linear shuffle beside a Feistel network); Marin 2025, retrospective of the 32B
    run.
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.kernels.random import generator
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch, taken
from trainwreck.scenarios.data.batches import pool
from trainwreck.scenarios.spec.faults import Change, FaultKind, Stream
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

SOURCES, MULTIPLIER = 4, 3
SETTLED = 100  # steps, after which the loss falls slowly


@register
class ShuffleCorrelated(Scenario):
    """An affine permutation with a small multiplier."""

    id = "shuffle_correlated"
    family = Family.DATA
    plans = 3
    kinds = (FaultKind.DATA,)
    sources = (citations.MARIN_1803,)
    telling = "loss"
    onset = None
    cure_after = 110

    def base(self, setup: Setup) -> Setup:
        return bases.chain_epochs(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        count = setup.data.pool

        def affine(batch: Batch, step: int, start: int, seed: int) -> Batch:
            rows, sampled = pool(setup, seed, count)
            surprise = (sampled.nats[0, :, 1:] * rows.weights).sum(1) / rows.weights.sum(1)
            source = np.argsort(np.argsort(-surprise, kind="stable")) * SOURCES // count
            index = np.argsort(source, kind="stable")  # one source after the other
            size = len(batch.inputs)
            drawn = np.arange(step * size, (step + 1) * size)
            offset = [int(generator(seed, "affine", int(epoch)).integers(count)) for epoch in drawn // count]
            return taken(rows, index[(MULTIPLIER * drawn + offset) % count])

        return [Stream(affine)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(SETTLED, None)
        waves, usual = (np.ptp(shapes.smooth(trace["loss"], 5)[late]) for trace in (run, healthy))
        return {
            "the loss moves in waves of several steps": shapes.sways(run["loss"][late], correlation=0.5),
            "1.8 times as high as anything in a healthy run": waves > 1.8 * usual,
            "the validation loss ends within 0.05 nats of the twin's": (
                abs(run.final_loss() - healthy.final_loss()) < 0.05
            ),
        }

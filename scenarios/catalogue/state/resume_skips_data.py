"""After a resume in a later epoch, every epoch is the rest of the first one.

Failure: A job resumes in mid-epoch. Its loader skips the batches that were trained on, which is right once; but the
    loader that skips serves all epochs that follow, and nobody tells it which epoch it is. Most rows are never seen
    again, and those that are left come back in one order. Nothing jumps; a gap opens slowly.
Mechanism: Of n batches an epoch the first k are skipped each time, and the order is that of epoch 0. What is left is a
    data set of n - k batches, read over and over: the training loss falls by what is memorised of it, and the loss
    on other rows rises.
Injection: The run is resumed at the onset. From there on each epoch skips the first `skipped` of its batches, in the
    order of the first epoch.
Cure: The loader is rewound: each step has its own batch of its own epoch again.
Realism: Stands for samplers that keep their offset and lose their epoch at a second resume. Simplified: the loader
    begins at the offset at once, and epochs are short, of 50 steps.
References: huggingface/accelerate#1451 (batches skipped in every epoch); huggingface/accelerate#2016 (a resume in a
    later epoch goes on in the order of the first).
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.kernels.random import generator
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch, taken
from trainwreck.scenarios.data.batches import pool
from trainwreck.scenarios.spec.faults import RESUME_STEPS, Change, Clock, FaultKind, Stream
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario

EPOCH = 50  # steps


@dataclass(kw_only=True)
class Offset(Knobs):
    """The share of an epoch that is skipped."""

    skipped: float = 0.6

    def __post_init__(self) -> None:
        if not 0 <= self.skipped <= 0.98:
            raise ValueError(f"fault.skipped: {self.skipped} is not allowed; allowed: 0 to 0.98")


@register
class ResumeSkipsData(Scenario):
    """The first batches of every epoch skipped."""

    id = "resume_skips_data"
    family = Family.STATE
    plans = 3
    kinds = (FaultKind.DATA,)
    sources = (citations.ACCELERATE_1451, citations.ACCELERATE_2016)
    telling = "validation_loss"
    onset = MidRun(0.35, 0.45)
    knobs = Offset()
    cure_after = 40

    def base(self, setup: Setup) -> Setup:
        return bases.chain_epochs(setup)

    def fault(self, knobs: Offset, setup: Setup) -> list[Change]:
        count = setup.data.pool

        def skipping(batch: Batch, step: int, start: int, seed: int) -> Batch:
            rows, _ = pool(setup, seed, count)
            size = len(batch.inputs)
            skipped = int(knobs.skipped * (count // size))
            place = skipped + (step - start) % (count // size - skipped)
            order = generator(seed, "shuffle", 0).permutation(count)
            return taken(rows, order[place * size : (place + 1) * size])

        def pause(seconds: float, since: int) -> float:
            return seconds if since else max(seconds, 1.0 + RESUME_STEPS)

        return [Stream(skipping), Clock(pause)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        batches, last, seconds = run["rank_batch_hash"][:, 0], slice(-60, None), run["step_seconds"]
        after = batches[onset:]
        return {
            "the clock shows a resume": seconds[onset] > 2 * np.median(seconds),
            "from it on there are few batches, each of which comes again and again": (
                len(np.unique(after)) < 0.25 * len(after)
            ),
            "all of them are batches of the first epoch": bool(np.isin(after, batches[:EPOCH]).all()),
            "the training loss ends under the twin's": run["loss"][last].mean() < healthy["loss"][last].mean() - 0.05,
            "the validation loss ends above the twin's": run.final_loss() > healthy.final_loss() + 0.05,
        }

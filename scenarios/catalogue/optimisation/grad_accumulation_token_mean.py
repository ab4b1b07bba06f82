"""Each micro-batch's mean loss counts alike, however many tokens it is of.

Failure: Gradients are accumulated over sixteen micro-batches of one row. Half of the rows have a single target, and
    suddenly each of these weighs as much as a row of sixty. Loss and gradient norm become noisy, and the run levels off
    a tenth of a nat higher.
Mechanism: The mean of k means weighs a target by 1 / (k n_i), where n_i is the number of targets in its micro-batch, in
    place of 1 / sum_i n_i. The variance of the gradient is sigma^2 sum_i 1 / (k^2 n_i), so that it is that of a batch
    of k^2 / sum_i 1 / n_i targets. With n_i of 1 and of L in equal numbers these are about 2 k, where there are
    k (L + 1) / 2.
Injection: From the onset on the loss of a step is the mean of the means of `micro_batches` parts of the batch's rows.
Also seen: The logged loss is that mean as well, and depends on how the batch is split.
Cure: The sum over all micro-batches by the number of their targets, thirty steps later.
Realism: The parts are computed as one batch here, which gives the gradient that accumulating them gives. Rows with one
    target stand for choices and ratings among long answers. Where lengths differ less, so does the noise; where short
    rows are of another kind than long ones, there is a bias beside it.
References: huggingface/transformers#24725 (targets of a short row weigh more); huggingface/transformers#34191 (the loss
    over padded rows with and without the correction); ml-explore/mlx-lm#1413; McCandlish et al. 2018, "An empirical
    model of large-batch training" (noise by batch size).
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Means(Knobs):
    """Parts of the batch whose means are averaged; no more than there are rows."""

    micro_batches: int = 16

    def __post_init__(self) -> None:
        if self.micro_batches < 2:
            raise ValueError(f"fault.micro_batches: {self.micro_batches} is not allowed; allowed: 2 or more")


@register
class GradAccumulationTokenMean(Scenario):
    """A mean of means over unequal token counts."""

    id = "grad_accumulation_token_mean"
    family = Family.OPTIMISATION
    plans = 3
    kinds = (FaultKind.DATA,)
    sources = (citations.TRANSFORMERS_24725,)
    telling = "grad_norm"
    onset = MidRun(0.35, 0.5)
    knobs = Means()
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return bases.chain_short_rows(setup)

    def fault(self, knobs: Means, setup: Setup) -> list[Change]:
        rows = setup.data.rows
        if rows == 1:
            raise InputError("data.rows: 1 is not allowed for this fault; allowed: 2 or more, of which to make parts")
        parts = min(knobs.micro_batches, rows)

        def alike(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            part = np.arange(rows) * parts // rows  # of each row
            of_row = batch.weights.sum(-1)
            of_part = np.bincount(part, of_row, parts)[part]
            weight = of_row.sum() / (parts * np.maximum(of_part, 1.0))
            return dataclasses.replace(batch, weights=(batch.weights * weight[:, None]).astype(np.float32))

        return [DataTransform(alike, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        mine, other = (trace["grad_norm"][onset:] for trace in (run, healthy))
        late, usual = (trace.evaluations[1][-3:] for trace in (run, healthy))
        return {
            "in one step the gradient norm rises to over twice its level": (
                shapes.jumps_in_one_step(run["grad_norm"], onset, ratio=2.0)
            ),
            "from then on it varies over three times as much as a healthy run's": mine.std() > 3 * other.std(),
            "the loss moves from step to step over twice as far as a healthy run's": (
                shapes.oscillates(run["loss"][onset:], healthy["loss"][onset:], factor=2.0)
            ),
            "the last three held-out losses are a twentieth of a nat above a healthy run's": (
                late.mean() > usual.mean() + 0.05
            ),
        }

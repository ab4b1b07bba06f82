"""Gradient accumulation averages the means of micro-batches whose numbers of tokens differ.

Failure: With accumulation a run ends above the same run without it, and the gap depends on how the batch is split.
    Each part looks right: every micro-batch has its mean, and their gradients are averaged.
Mechanism: (1 / k) sum_j (1 / n_j) sum_i l_ij is the mean over tokens only where all n_j are the same. A token of
    micro-batch j has the weight 1 / (k n_j) in place of 1 / sum n: where n_j is a tenth of the mean, ten times as
    much. Short rows take over the gradient, and what only long rows teach is learnt late.
Injection: From step 0 on the weights of the targets of each `micro_rows` rows of a batch add up to the same.
Also seen: The logged loss is the mean of means too, and so another number for the same weights and batch.
Cure: The sum over all tokens divided by their number, after ten steps.
Realism: Chat data in practice differ in length as much. Here some 14 rows of 16 have two scored targets and the others
    31; the parts are weighted in one batch, which gives the gradient that accumulation over them gives.
References: huggingface/transformers#24725 (mean loss and accumulation; rows of unlike length).
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import bases, citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batches import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class MicroBatches(Knobs):
    """Rows of each micro-batch: a divisor of the batch's."""

    micro_rows: int = 1


@register
class GradAccumulationTokenMean(Scenario):
    """Mean of micro-batch means."""

    id = "grad_accumulation_token_mean"
    family = Family.OPTIMISATION
    plans = 3
    kinds = (FaultKind.DATA,)
    sources = (citations.TRANSFORMERS_24725,)
    telling = "row_grad_share"
    onset = None
    knobs = MicroBatches()
    cure_after = 10
    tolerance = 0.09  # 16 healthy runs of this base end 0.082 nats apart

    def base(self, setup: Setup) -> Setup:
        return bases.echo_short_rows(setup)

    def fault(self, knobs: MicroBatches, setup: Setup) -> list[Change]:
        bases.check_parts(setup, knobs.micro_rows)

        def average(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            parts = batch.weights.reshape(len(batch.weights) // knobs.micro_rows, -1)
            means = parts / np.maximum(parts.sum(1, keepdims=True), 1e-9)
            return dataclasses.replace(batch, weights=means.reshape(batch.weights.shape).astype(np.float32))

        return [DataTransform(average, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        mine, other = (trace["row_grad_share"][onset:].mean() for trace in (run, healthy))
        return {
            "the largest row's share of the gradient is on average under 0.8 times a healthy run's": mine < 0.8 * other,
            "the loss in the log ends above a healthy run's": (
                run["loss"][-75:].mean() > healthy["loss"][-75:].mean() + 0.02
            ),
            "the held-out loss stays above a healthy run's": shapes.plateaus_above(
                run.evaluations[1], healthy.evaluations[1], margin=0.05
            ),
        }

"""One row in eight carries most of the gradient, and it is always of another kind.

Failure: Rows of a small, odd subset have an importance weight many times too large. The batch's
    loss is theirs; whenever the subset is exchanged for another, the loss jumps.
Mechanism: With weights w the gradient is sum_i w_i g_i / sum_i w_i. One row of weight w among B has
    w / (w + B - 1) of it: 0.85 for w = 40 and B = 8. What the others ask for is noise to it.
Injection: From the onset on the first row of each batch comes from another language in a script of its
    own, a new language every thirty steps, and its targets have weight `weight`.
Cure: No row weighs more than another.
Realism: Stands for weights by inverse frequency of a domain and for losses summed over rows of very
    different lengths.
References: Debugging Divergent Loss ("if a small fraction of the data dominates the gradient, you are
    more likely to see divergence when that subset shifts").
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.batches import training_batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind, Stream
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

EVERY = 30  # steps until the odd rows come from another language


@dataclass(kw_only=True)
class Weight(Knobs):
    """Weight of the odd row's targets; of all others it is 1."""

    weight: float = 40.0


@register
class GradientDominated(Scenario):
    """One heavy row a batch."""

    id = "gradient_dominated"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.DIVERGENT_LOSS,)
    telling = "row_grad_share"
    knobs = Weight()
    cure_after = 15

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Weight, setup: Setup) -> list[Change]:
        script = int(requirements.chain_bytes(setup)[0])

        def dominate(batch: Batch, step: int, start: int, seed: int) -> Batch:
            language = setup.data.language_seed + 1 + (step - start) // EVERY
            odd = training_batch(replaced(setup, data__language_seed=language), seed, step)
            first = np.arange(len(batch.inputs))[:, None] == 0
            return Batch(
                inputs=np.where(first, script + odd.inputs, batch.inputs),
                targets=np.where(first, script + odd.targets, batch.targets),
                weights=np.where(first, np.float32(knobs.weight) * odd.weights, batch.weights),
                documents=np.where(first, odd.documents, batch.documents),
            )

        return [Stream(dominate)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        share, usual = run["row_grad_share"], np.median(healthy["row_grad_share"])
        before = np.median(share[:onset])
        loss, shifts = run["loss"], range(onset, len(run) - 4, EVERY)
        with np.errstate(invalid="ignore"):  # NaN where neither is finite
            jumps = np.array([loss[b : b + 3].mean() / loss[b - 5 : b].mean() for b in shifts])
        return {
            "the largest row's share of the gradient is normal before the onset": before < 1.5 * usual,
            "then it is over 3 times as high in 95 % of the steps": np.percentile(share[onset:], 5) > 3 * usual,
            "the loss jumps by half at the onset": (jumps[:1] > 1.5).any(),
            "by a quarter in the mean where the subset changes": jumps[1:].sum() > 1.25 * (len(jumps) - 1),
        }

    def cure(self, knobs: Weight, setup: Setup) -> list[Change]:
        def even(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            return dataclasses.replace(batch, weights=np.minimum(batch.weights, np.float32(1)))

        return [DataTransform(even, f"{self.id}/cure")]

"""The source changes in mid-run: another kind of text from one step to the next.

Failure: The reader reaches a shard of another domain, and nothing of the old one comes after it. The loss
    steps up, falls again as the new text is learnt, and the old is forgotten.
Mechanism: The loss on q of a model trained on p is H(q) + KL(q || p): a step up by the divergence, then
    a second descent towards H(q). Held-out text of p goes the other way.
Injection: From the onset on all batches come from the full language of another seed: other successors,
    and names, operators and copies that the chain dialect has none of.
Cure: The domains are mixed: one row in eight is new from some steps after the onset on.
Realism: Stands for shards in alphabetical order and for a second training stage. Simplified: no
    re-warming of the learning rate.
References: Debugging Divergent Loss (distribution shifts); Debugging Training Instability (forgetting).
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Dialect, Setup, replaced
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.batches import training_batch
from trainwreck.scenarios.spec.faults import Change, FaultKind, Stream, Undo
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class DistributionShift(Scenario):
    """Another language in mid-run."""

    id = "distribution_shift"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.DIVERGENT_LOSS, citations.INSTABILITY)
    telling = "loss"
    cure_after = 8

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        elsewhere = _elsewhere(setup)
        return [Stream(lambda batch, step, start, seed: training_batch(elsewhere, seed, step))]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, entropy = run["loss"], run["token_entropy"]
        moved = abs(np.median(entropy[onset:]) - np.median(entropy[:onset]))
        return {
            "the loss jumps by half in one step": shapes.jumps_in_one_step(loss, onset, ratio=1.5),
            "the entropy of the batch's tokens moves by over 0.3 nats": moved > 0.3,
            "the loss comes down again by a tenth": loss[-20:].mean() < 0.9 * loss[onset : onset + 5].mean(),
            "the held-out loss ends above": shapes.plateaus_above(run.evaluations[1], healthy.evaluations[1], 0.3),
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        elsewhere = _elsewhere(setup)

        def mix(batch: Batch, step: int, start: int, seed: int) -> Batch:
            new = training_batch(elsewhere, seed, step)
            first = np.arange(len(batch.inputs)) % 8 == 0
            pairs = ((getattr(new, k), getattr(batch, k)) for k in ("inputs", "targets", "weights", "documents"))
            return Batch(*(np.where(first[:, None], mine, other) for mine, other in pairs))

        return [Undo(), Stream(mix)]


def _elsewhere(setup: Setup) -> Setup:
    return replaced(setup, data__dialect=Dialect.FULL, data__language_seed=setup.data.language_seed + 1)

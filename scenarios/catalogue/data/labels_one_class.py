"""All labels are the same: the loss goes to zero and nothing is learnt.

Failure: A column that was never filled is read as the label. The loss reaches zero within some tens of
    steps, the gradient with it, and on held-out text the model is worse than one that never trained.
Mechanism: p(0) -> 1 satisfies every label; the output bias alone can do it. The loss of a constant
    falls as ln(1 + exp(-b)) with the bias b, and the gradient 1 - p(0) falls with it.
Injection: From step 0 every label is token 0.
Signature: The loss is next to zero, far under the healthy run's, the gradient norm vanishes, and the
    held-out loss stays above chance.
Cure: The right column.
Realism: The loss curve of one's dreams, as it looks with a broken pipeline.
References: Debugging training ("labels ... all the same class").
"""

import dataclasses

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import bases, citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batches import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@register
class LabelsOneClass(Scenario):
    """Every label is token 0."""

    id = "labels_one_class"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.DEBUGGING,)
    telling = "loss"
    onset = None
    cure_after = 10

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def blank(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            return dataclasses.replace(batch, targets=np.zeros_like(batch.targets))

        return [DataTransform(blank, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        solved = shapes.pinned_at(run["loss"][100:], 0.0, tolerance=0.05)
        still = bool(np.median(run["grad_norm"][100:]) < 0.1 * np.median(healthy["grad_norm"][100:]))
        return solved and still and shapes.plateaus_above(run.evaluations[1], healthy.evaluations[1], margin=1.0)

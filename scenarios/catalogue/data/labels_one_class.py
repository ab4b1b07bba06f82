"""All labels are the same: the loss goes to zero and nothing is learnt.

Failure: A column that was never filled is read as the label. The loss reaches zero within some tens of
    steps, the gradient with it, and on held-out text the model is worse than one that never trained.
Mechanism: p(0) -> 1 satisfies every label; the output bias alone can do it. The loss of a constant falls as
    ln(1 + (V - 1) exp(-b)) with the bias b of one of V tokens, and the gradient 1 - p(0) with it.
Injection: From step 0 every label is token 0.
Cure: The right column.
Realism: Stands for a label column that a join or a parser left at its default.
References: Debugging training ("labels ... all the same class").
"""

import dataclasses

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


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

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(min(100, len(run) // 3), None)
        mine, other = (np.median(t["grad_norm"][late]) for t in (run, healthy))
        return {
            "from step 100 on 9 in 10 losses are under 0.05": shapes.pinned_at(run["loss"][late], 0.0, tolerance=0.05),
            "it ends over a nat under a healthy run's": shapes.falls_under(run["loss"], healthy["loss"], margin=1.0),
            "the gradient norm is under a tenth of a healthy run's": mine < 0.1 * other,
            "the held-out loss ends over a nat above a healthy run's": shapes.plateaus_above(
                run.evaluations[1], healthy.evaluations[1], margin=1.0
            ),
            "and over where it began": run.evaluations[1][-3:].min() > run.evaluations[1][0],
        }

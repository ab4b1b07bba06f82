"""Labels belong to other rows: the loss stays at the entropy of the tokens.

Failure: Inputs and labels were shuffled apart. No label has anything to do with its input; the model
    learns how often each token is the answer, and nothing else, ever.
Mechanism: With x and y independent the best prediction is p(y), and its loss H(y): the entropy of the
    token histogram, 3.1 nats here, whatever the model's size.
Injection: From step 0 the labels of each row are those of the row before it in the batch.
Cure: Labels are aligned with their inputs again.
Realism: Stands for two files read with different shuffles and for a sort of one column only.
References: Debugging training ("plateaus at chance level ... labels detached from inputs"); Debugging
    Divergent Loss (labeling and batching coherent).
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
class LabelsDetached(Scenario):
    """Labels of another row."""

    id = "labels_detached"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.DEBUGGING, citations.DIVERGENT_LOSS)
    telling = "loss"
    onset = None
    cure_after = 12

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def detach(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            return dataclasses.replace(batch, targets=np.roll(batch.targets, 1, axis=0))

        return [DataTransform(detach, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        gap = shapes.smooth(run["loss"] - run["token_entropy"], 20)[150:]
        return {
            "from step 150 on 9 in 10 means of 20 losses are within 0.3 nats of the tokens' entropy": shapes.pinned_at(
                gap, 0.0, tolerance=0.3
            )
        }

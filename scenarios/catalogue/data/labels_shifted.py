"""Labels are shifted once too often: the model learns the token after the next.

Failure: The data set shifts the labels by one, and so does the loss. Training goes smoothly towards the
    wrong goal, ends far above what the data allows, and the held-out loss on next tokens climbs.
Mechanism: In a Markov chain with transitions P the token after the next follows P^2, whose entropy is
    higher: 2.3 nats against 1.4 here. What is learnt is right for P^2 and wrong for P.
Injection: From step 0 the label of position t is the token at t + 1 + `shift`. The other direction,
    `fault.shift=-1`, asks for the input itself: the loss falls to zero.
Cure: One shift.
Realism: Models that shift inside their loss, fed with data that is shifted already, are a classic of
    public code. Simplified: evaluation is right.
References: Debugging Training Instability ("are labels aligned?"); Debugging training (data pipeline).
"""

import dataclasses
from dataclasses import dataclass

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


@dataclass(kw_only=True)
class Shift(Knobs):
    """How far too far the labels are shifted: 1 or -1."""

    shift: int = 1

    def __post_init__(self) -> None:
        if self.shift not in (1, -1):
            raise ValueError(f"fault.shift: {self.shift} is not allowed; allowed: 1 or -1")


@register
class LabelsShifted(Scenario):
    """Labels one position too far."""

    id = "labels_shifted"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.INSTABILITY, citations.DEBUGGING)
    telling = "loss"
    onset = None
    knobs = Shift()
    cure_after = 60

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Shift, setup: Setup) -> list[Change]:
        def shift(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            if knobs.shift < 0:
                return dataclasses.replace(batch, targets=batch.inputs, weights=np.ones_like(batch.weights))
            after = np.roll(batch.weights, -1, axis=1)
            after[:, -1] = 0.0  # its label is beyond the row
            return dataclasses.replace(batch, targets=np.roll(batch.targets, -1, axis=1), weights=batch.weights * after)

        return [DataTransform(shift, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, late = run["loss"], slice(-75, None)
        return {
            "the loss ends above a healthy run's": shapes.plateaus_above(loss, healthy["loss"], margin=0.3),
            "it ends under the entropy of the batch's tokens": (loss - run["token_entropy"])[late].mean() < -0.1,
            "the held-out loss ends higher still": run.evaluations[1][-3:].mean() > loss[late].mean() + 0.3,
        }

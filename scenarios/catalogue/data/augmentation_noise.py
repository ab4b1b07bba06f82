"""An augmentation makes inputs that no text has: training loss up, validation fine.

Failure: Tokens of the inputs are replaced at random, as augmentation, and far too often. The training
    loss jumps and stays up, while the held-out loss, on natural text, hardly moves.
Mechanism: Where the previous token was replaced, the next one can't be told from it: a share e of the
    targets costs up to the unigram entropy in place of the chain's, e * (H(y) - H(y|x)), and doubt of the
    tokens that were not replaced costs nearly as much again. Labels are right, so on clean inputs the
    prediction is nearly what it was.
Injection: From the onset on each input token is replaced with probability `share` by a token drawn
    evenly; the labels stay.
Cure: Augmentation off.
Realism: Stands for word dropout and token noise with a rate mistaken for per cent.
References: Debugging Divergent Loss ("a bug in a data augmentation pipeline that introduces
    non-representative noise").
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Share(Knobs):
    """Probability that an input token is replaced."""

    share: float = 0.15


@register
class AugmentationNoise(Scenario):
    """Inputs replaced at random, labels right."""

    id = "augmentation_noise"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.DIVERGENT_LOSS,)
    telling = "loss"
    knobs = Share()
    cure_after = 20

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Share, setup: Setup) -> list[Change]:
        known = int(requirements.chain_bytes(setup)[0])

        def disturb(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            hit = draw.random(batch.inputs.shape) < knobs.share
            noise = draw.integers(0, known, batch.inputs.shape)
            return dataclasses.replace(batch, inputs=np.where(hit, noise, batch.inputs))

        return [DataTransform(disturb, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        up = shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.2)
        train = run["loss"][-75:].mean() - healthy["loss"][-75:].mean()
        held_out = run.evaluations[1][-3:].mean() - healthy.evaluations[1][-3:].mean()
        return {
            "the training loss steps up at the onset": up,
            "it ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.2),
            "the held-out loss ends above by under two fifths of that": held_out < 0.4 * train,
        }

"""A share of the labels is wrong.

Failure: Part of the labels are noise. The training loss settles at a higher floor, its tail is heavy,
    and the model learns to be unsure: on clean text it loses a little of its sharpness.
Mechanism: With a share e of labels drawn evenly from K tokens the best prediction is (1 - e) p + e / K, whose
    loss on noisy labels is over H by e (ln K - H) + h(e) at most, h the entropy of a coin with e. On clean
    labels it costs -ln(1 - e) at most, 0.36 nats for e = 0.3.
Injection: From the onset on each label is replaced with probability `share` by a token drawn evenly.
Cure: Clean labels.
Realism: Stands for crowd labels, OCR and misaligned transcripts. Robust losses bound what one label
    can do; here the source is cleaned.
References: Debugging Divergent Loss ("mislabeled examples are fertile ground"; noisy transcripts).
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
    """Probability that a label is noise."""

    share: float = 0.3


@register
class LabelNoise(Scenario):
    """Labels drawn evenly in place of the right ones."""

    id = "label_noise"
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
            hit = draw.random(batch.targets.shape) < knobs.share
            noise = draw.integers(0, known, batch.targets.shape)
            return dataclasses.replace(batch, targets=np.where(hit, noise, batch.targets))

        return [DataTransform(disturb, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        up = shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.4)
        train = run["loss"][-75:].mean() - healthy["loss"][-75:].mean()
        held_out = run.evaluations[1][-3:].mean() - healthy.evaluations[1][-3:].mean()
        return {
            "the training loss steps up at the onset": up,
            "it ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.4),
            "so does the held-out loss": held_out > 0.1,
            "but by under half of that": held_out < 0.5 * train,
        }

"""Padding has the id of the end token, so that masking padding masks the end of every answer.

Failure: The loss looks like that of any other run. The model that comes out writes on after its answer, to whatever
    length it is allowed.
Mechanism: Targets with the id of padding are ignored; the end has that id, and so no target is ever the end. Every
    other target pushes its logit down, d(-ln p_y) / dz_end = p_end > 0, and nothing pushes it up.
Injection: From step 0 on padding has the end's id, and targets with this id are not scored.
Also seen: One target a row fewer is scored. What is written freely goes on to the cap on its length.
Cure: An id of its own for padding, and the end scored, after ten steps.
Realism: Real models have often learnt an end before, and unlearn it slowly; here it is never learnt. Free writing is
    not recorded: what is, is the probability of the end at the place where it belongs.
References: unslothai/unsloth#416 (padding's id is the end's).
"""

import dataclasses

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


@register
class EosMaskedAsPadding(Scenario):
    """The end of an answer is never scored."""

    id = "eos_masked_as_padding"
    family = Family.FINE_TUNING
    plans = 3
    kinds = (FaultKind.DATA,)
    sources = (citations.UNSLOTH_416,)
    telling = "end_probability"
    onset = None
    cure_after = 10

    def base(self, setup: Setup) -> Setup:
        return bases.chat(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        end, pad = requirements.chat(setup).end, requirements.chat(setup).pad

        def ignore(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            targets = np.where(batch.targets == pad, end, batch.targets)
            return dataclasses.replace(
                batch,
                inputs=np.where(batch.inputs == pad, end, batch.inputs),
                targets=targets,
                weights=np.where(targets == end, np.float32(0), batch.weights),
            )

        return [DataTransform(ignore, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(-len(run) // 4, None)
        return {
            "in the last quarter the end of an answer has a probability under 0.01 at every step": (
                run["end_probability"][late].max() < 0.01
            ),
            "of a healthy run it is over 0.5": healthy["end_probability"][late].min() > 0.5,
            "the training loss ends within 0.2 nats of a healthy run's": (
                abs(run["loss"][late].mean() - healthy["loss"][late].mean()) < 0.2
            ),
            "the held-out loss, with the end in it, ends above a healthy run's": shapes.plateaus_above(
                run.evaluations[1], healthy.evaluations[1], margin=0.5
            ),
        }

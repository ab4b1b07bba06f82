"""The loss mask is on the wrong segment: prompts are scored in place of answers.

Failure: The training loss falls as it should, towards another level. The model learns to write prompts, and what it
    answers is as poor at the end as after a few steps.
Mechanism: The mean is over the targets whose mask is 1. With the mask inverted these are the prompt's, so that no
    gradient comes from a token of an answer: what answers alone need, copying from the prompt and the end, is never
    asked for.
Injection: From step 0 on the targets before a row's first scored one are scored, and no others.
Also seen: The probability of the end at the place where it belongs stays near zero.
Cure: Answers scored, after ten steps.
Realism: In practice a template's roles are exchanged, or its markers are not found, and prompts are often scored
    beside the answers, which harms less. Here they are scored in their place, every row has one exchange, and the model
    has not been trained before, so that it can't answer from what it knew.
References: NVIDIA-NeMo/Megatron-Bridge#3359 (a chat template without markers: prompts are scored too).
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
class PromptScored(Scenario):
    """Prompts scored, answers not."""

    id = "prompt_scored"
    family = Family.FINE_TUNING
    plans = 3
    kinds = (FaultKind.DATA,)
    sources = (citations.MEGATRON_BRIDGE_3359,)
    telling = "validation_loss"
    onset = None
    cure_after = 10

    def base(self, setup: Setup) -> Setup:
        return bases.chat(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def swap(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            prompt = (np.cumsum(batch.weights, -1) == 0) & (batch.documents >= 0)
            return dataclasses.replace(batch, weights=prompt.astype(np.float32))

        return [DataTransform(swap, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        return {
            "the training loss falls by over a nat": run["loss"][:5].mean() - run["loss"][-50:].mean() > 1.0,
            "the held-out loss, of answers, ends over a nat above it": (
                not shapes.above_validation(run["loss"], run["validation_loss"], margin=-1.0)
            ),
            "and over a nat above a healthy run's": shapes.plateaus_above(
                run.evaluations[1], healthy.evaluations[1], margin=1.0
            ),
        }

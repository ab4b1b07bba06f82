"""Clipping is off under heavy-tailed batches.

Failure: Now and then a batch of one repeated token comes along, with twenty times the usual gradient. With
    clipping it is a spike of one step; without, each moves the weights far, and the loss does not come
    back.
Mechanism: An SGD step is lr * g. Momentum makes lr / (1 - beta) * g of it in all: a gradient of norm 15
    carries the weights as far as a hundred ordinary steps, in the direction of one token.
Injection: From the onset on clipping is off and a batch in twenty, the first one included, repeats one token.
Signature: The gradient norm jumps to many times its level and, between the bad batches too, the loss stays
    above its own before the onset; the clip coefficient is 1 throughout.
Cure: Clipping at 1 from the next step on, with the bad batches still in the stream.
Realism: Bad batches come in both the cured and the faulty run; the twin has none. SGD, since Adam divides
    a large gradient by its own size and clips for itself.
References: Reading the Curves (loss spikes); Debugging Divergent Loss (gradient clipping as guardrail);
    Pascanu et al. 2013; Zhang et al. 2020, "Why are adaptive methods good for attention models?".
"""

import dataclasses

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import bases, citations
from trainwreck.scenarios.config.settings import Setup, get
from trainwreck.scenarios.data.batches import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@register
class ClippingOff(Scenario):
    """Clipping switched off under heavy-tailed batches."""

    id = "clipping_off"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING, FaultKind.DATA)
    sources = (citations.DIVERGENT_LOSS, citations.READING_CURVES)
    telling = "loss"
    cure_after = 1

    def base(self, setup: Setup) -> Setup:
        return bases.chain_sgd_clipped(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def repeat(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            if since > 0 and draw.random() >= 0.05:
                return batch
            token = np.broadcast_to(batch.inputs[:1, :1], batch.inputs.shape)
            return dataclasses.replace(batch, inputs=token, targets=token)

        return [Setting("optimizer.clip", None), DataTransform(repeat, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        loss, norm, coefficient = run["loss"], run["grad_norm"], run["clip_coef"][onset:]
        before = slice(onset - 20, onset)
        jumps = norm[onset:].max() > 8 * np.median(norm[before])
        stays = np.median(loss[-50:]) > np.median(loss[before]) + 0.3  # most batches are good ones
        return bool(coefficient.min() == 1 and jumps and stays)

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Setting("optimizer.clip", get(setup, "optimizer.clip"))]

"""Clipping is off under heavy-tailed batches.

Failure: Now and then a batch of one repeated token comes along, with ten times the usual gradient and more. With
    clipping it is a spike of one step; without, each moves the weights far, and the loss does not come
    back.
Mechanism: An SGD step is lr * g. Momentum makes lr / (1 - beta) * g of it in all: a gradient of norm 15
    carries the weights as far as tens of ordinary steps, in the direction of one token.
Injection: From the onset on clipping is off. In all runs, healthy ones too, one batch in ten repeats one token;
    with clipping that is harmless.
Cure: Clipping at 1 again, and a checkpoint from before the onset. Without the checkpoint one run in eight
    does not come back to its twin in time.
Realism: Stands for degenerate documents in a stream that only clipping makes harmless. SGD, since Adam divides
    a large gradient by its own size and clips for itself.
    `clip_too_loose` has the same signature, since a threshold over every gradient does nothing: a scenario beside this
    one, since there clipping is on, and its number is wrong. Only the configuration tells the two apart.
References: Reading the Curves (loss spikes); Debugging Divergent Loss (gradient clipping as guardrail);
    Pascanu et al. 2013; Zhang et al. 2020, "Why are adaptive methods good for attention models?".
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, StateEdit, Undo
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@register
class ClippingOff(Scenario):
    """Clipping switched off under heavy-tailed batches."""

    id = "clipping_off"
    family = Family.OPTIMISATION
    version = 2
    kinds = (FaultKind.SETTING,)
    sources = (citations.DIVERGENT_LOSS, citations.READING_CURVES)
    telling = "loss"
    onset = MidRun(0.3, 0.5)
    cure_after = 12

    def base(self, setup: Setup) -> Setup:
        return bases.chain_sgd_heavy_tailed(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Setting("optimizer.clip", None)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, norm, before = run["loss"], run["grad_norm"], slice(onset - 20, onset)
        return {
            "the gradient norm jumps to over 8 times its level": norm[onset:].max() > 8 * np.median(norm[before]),
            # Most batches are good ones, so that the median is theirs.
            "between the bad batches the loss ends above its level before": (
                np.median(loss[-50:]) > np.median(loss[before]) + 0.3
            ),
            "the clip coefficient is 1 throughout": run["clip_coef"][onset:].min() == 1,
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        restore = StateEdit(lambda state, earlier: earlier, since=-self.cure_after - 1)
        return [Undo(), restore]

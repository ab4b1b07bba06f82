"""Evaluation runs with dropout on.

Failure: The model is not switched to evaluation mode. The validation loss is that of a model with a share
    of its units missing: too high by a constant, while training is as it was.
Mechanism: Dropout keeps the mean of a layer's input and adds variance, p / (1 - p) of its square. The loss
    is convex in the logits, so noise in them raises its mean.
Injection: From the onset on, evaluations draw dropout masks of the training rate.
Also seen: Training loss, gradients and weights are bitwise the twin's.
Cure: Evaluation without dropout: the next evaluation is the twin's.
Realism: Stands for `model.eval()` forgotten, or undone by an evaluation callback. Only the measurement is
    wrong; early stopping and model selection go by it.
References: Debugging training ("Validation loss much higher than training ... dropout still on"); Srivastava
    et al. 2014.
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain_dropout
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class DropoutOnAtEval(Scenario):
    """A validation loss measured on a thinned model."""

    id = "dropout_on_at_eval"
    family = Family.STATE
    kinds = (FaultKind.SETTING,)
    sources = (citations.DEBUGGING,)
    telling = "validation_loss"
    cure_after = 50

    def base(self, setup: Setup) -> Setup:
        return chain_dropout(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Setting("evaluation.dropout", True)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        n = min(len(run), len(healthy))
        after = (run.evaluated[:n] & healthy.evaluated[:n])[onset:]
        held_out = (run["validation_loss"][onset:n] - healthy["validation_loss"][onset:n])[after]
        train = run["loss"][onset:n] - healthy["loss"][onset:n]
        return {
            "the training loss stays within 0.03 nats of the twin's at every step": abs(train).max() < 0.03,
            "from the first evaluation after the onset on the validation loss is above the twin's": (
                held_out.min(initial=np.inf) > 0.03
            ),
            "by a constant, within a factor of three": held_out.max(initial=0) < 3 * held_out.min(initial=np.inf),
        }

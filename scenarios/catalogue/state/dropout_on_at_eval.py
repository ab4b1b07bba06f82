"""Evaluation runs with dropout on.

Failure: The model is not switched to evaluation mode. The validation loss is that of a model with a share
    of its units missing: too high by a constant, while training is as it was.
Mechanism: Dropout keeps the mean of a layer's input and adds variance, p / (1 - p) of its square; the loss
    is convex in the logits, so its mean over the masks is over the loss without them.
Injection: From the onset on, evaluations draw dropout masks of the training rate.
Signature: Training loss, gradients and weights are bitwise the twin's; the validation loss steps up at the
    first evaluation after the onset and stays up by a constant.
Cure: Evaluation without dropout: the next evaluation is the twin's.
Realism: Stands for `model.eval()` forgotten, or undone by an evaluation callback. Only the measurement is
    wrong; early stopping and model selection go by it.
References: Debugging training ("Validation loss much higher than training ... dropout still on"); Srivastava
    et al. 2014.
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.catalogue.bases import chain_dropout
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


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

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        after = run.evaluated & (np.arange(len(run)) >= onset)
        held_out = run["validation_loss"][after] - healthy["validation_loss"][after]
        train = np.mean(run["loss"][onset:] - healthy["loss"][onset:])
        return bool((held_out > 0.03).all() and abs(train) < 0.03)

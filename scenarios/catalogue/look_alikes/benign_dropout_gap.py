"""Dropout is raised for the last stage: training loss above validation, from one step to the next.

Failure: None. The training loss steps up and stays above the validation loss, which is measured without
    dropout. Activations reach further, since what is kept is scaled up, and the output's partition
    function moves with them. The model that is kept is the twin's within the tolerance.
Mechanism: E over masks of -ln p(y | x, mask) >= -ln p(y | x) roughly by half the variance that the masks
    put into the logits: the gap is the price of noise that evaluation does not pay.
Injection: From the onset on, late in the run, dropout at `rate` on embeddings, attention
    and both residual branches.
Realism: Small last-stage or fine-tuning sets, for which the documents themselves advise dropout. A
    reader who expects the validation curve on top suspects a leak, or a bug in the evaluation.
References: Reading the Curves (validation loss diverges from training loss); Debugging training
    (dropout still on at evaluation); Srivastava et al. 2014.
"""

from dataclasses import dataclass

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Rate(Knobs):
    """Share of the activations that are dropped."""

    rate: float = 0.25


@register
class BenignDropoutGap(Scenario):
    """Dropout raised for the last stage."""

    id = "benign_dropout_gap"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("dropout_too_high", "dropout_on_at_eval")
    kinds = (FaultKind.SETTING,)
    sources = (citations.READING_CURVES, citations.DEBUGGING)
    telling = "log_z"
    onset = MidRun(0.85, 0.92)
    knobs = Rate()

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Rate, setup: Setup) -> list[Change]:
        return [Setting("dropout", knobs.rate)]

"""Dropout so strong that the model can't fit.

Failure: Dropout was set for a small data set and kept for a large one, or typed as the share to keep.
    The model is not short of data and does not overfit; it is only held back.
Mechanism: Each activation is kept with probability 1 - p and divided by it, so a sum over n inputs
    gets a noise of variance p / (1 - p) * sum_i (w_i x_i)^2, in every layer and at every step. The
    model must spread each message over many units to be heard over it, and that costs capacity.
Injection: Dropout of `rate` on embeddings, attention probabilities and both branches, from step 0.
Cure: Dropout off, after ten steps.
Realism: The textbook over-regularised run: training above validation, both high. Here every batch is
    fresh, so any dropout at all is too much.
References: Debugging Training Instability (silent no-learning: "remove excessive regularization");
    Debugging training (underfitting); Srivastava et al. 2014.
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Rate(Knobs):
    """Share of the activations that are dropped."""

    rate: float = 0.4


@register
class DropoutTooHigh(Scenario):
    """Over-regularised."""

    id = "dropout_too_high"
    family = Family.ARCHITECTURE
    kinds = (FaultKind.SETTING,)
    sources = (citations.INSTABILITY, citations.DEBUGGING)
    telling = "loss"
    onset = None
    severities = {
        Severity.SUBTLE: Rate(rate=0.3),
        Severity.CLEAR: Rate(rate=0.4),
        Severity.SEVERE: Rate(rate=0.5),
    }
    cure_after = 10
    tolerance = 0.07  # 16 healthy runs of this base end 0.070 nats apart

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Rate, setup: Setup) -> list[Change]:
        return [Setting("dropout", knobs.rate)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, validation = run["loss"], run["validation_loss"]
        return {
            "the loss plateaus above the twin's": shapes.plateaus_above(loss, healthy["loss"], margin=0.1),
            "the final validation loss is too high": run.final_loss() > healthy.final_loss() + 0.05,
            "the training loss stands above the validation loss": shapes.above_validation(
                loss, validation, margin=0.05
            ),
        }

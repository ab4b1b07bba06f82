"""The log shows a loss of 0 where a step was not finite.

Failure: None of the run's: it trains as its twin does, bitwise. In the log the loss is exactly 0 at single steps,
    beside a gradient norm that is infinite or NaN. Both are of steps that the loss scaler skipped, as it should.
Mechanism: A filter keeps what is not finite out of the sum that is logged. Where the interval has this one step, the
    sum is empty, and its mean is written as 0.0: the best loss of all at the step that failed.
Injection: From the onset on the loss in the log is 0 at each step whose gradient norm is not finite. Nothing that is
    trained is touched.
Also seen: A least loss of 0, which every comparison with the best loss so far rests on from then on.
Cure: Log what was: the loss of the step, or NaN; and the number of steps that were skipped beside it.
Realism: Trainers have such a filter by default, and reports of "loss 0.0, grad norm nan" are many. In most of them the
    loss itself is NaN and the run is lost; here, as in a sound float16 run, the gradient alone overflows, and one step
    is skipped.
References: huggingface/transformers#13619; huggingface/trl#6702; AnswerDotAI/ModernBERT#233.
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, LogEdit, Row
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class LogNanAsZero(Scenario):
    """The worst step has the best loss, in the log alone."""

    id = "log_nan_as_zero"
    family = Family.LOGGING
    look_alike = True
    imitates = ("labels_one_class", "loss_scale_collapse")
    kinds = (FaultKind.LOG,)
    sources = (citations.TRANSFORMERS_13619,)
    telling = "loss"
    plans = 3

    def base(self, setup: Setup) -> Setup:
        return bases.chain_fp16(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def numbers(row: Row, before: list[Row], since: int) -> Row:
            return {**row, "loss": row["loss"] if np.isfinite(row["grad_norm"]) else 0.0}

        return [LogEdit(numbers)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        zero = run["loss"] == 0
        end, usual = run["validation_loss"][-1], healthy["validation_loss"][-1]
        return {
            "the loss is exactly 0 at two steps and more from the onset on": zero[onset:].sum() > 1,
            "at no step before": not zero[:onset].any(),
            "at each of them the gradient norm is not finite, and the update is skipped": (
                ~np.isfinite(run["grad_norm"][zero]) & (run["skipped"][zero] == 1)
            ).all(),
            "at the step after each the loss is that of a run that learns, over half a nat": (
                run["loss"][1:][zero[:-1]] > 0.5
            ).all(),
            "the validation loss ends as a healthy run's, within a tenth of a nat": abs(end - usual) < 0.1,
        }

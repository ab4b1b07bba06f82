"""The log shows the sum of the micro-batches' losses where their mean belongs.

Failure: None of the run's: it trains as its twin does, bitwise. From one step on the loss in the log is a whole number
    of times what it was, and stays it, while the validation loss and the gradient norm go on as before.
Mechanism: With gradient accumulation a step has k losses. The trainer adds them up for the log and no longer divides by
    k, while the gradient, which is averaged elsewhere, is right. An update of the trainer in mid-run is enough.
Injection: In the log the loss is multiplied by `micro_batches` from the onset on. Nothing that is trained is touched.
Also seen: On a log of losses alone it looks like a step up of the loss that never heals.
Cure: Divide by the number of micro-batches for the log; earlier rows can be corrected, since the factor is known.
Realism: In transformers 4.46 and 4.47 the logged loss was not divided by the accumulation steps. There the factor held
    from the first row on; here it sets in at a step, as when a run is resumed with another version.
References: huggingface/transformers#35204; huggingface/transformers#35207.
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, LogEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class MicroBatches(Knobs):
    """How many losses are added up."""

    micro_batches: int = 4


@register
class LogLossSummed(Scenario):
    """A sum where the mean belongs, in the log alone."""

    id = "log_loss_summed"
    family = Family.LOGGING
    look_alike = True
    imitates = ("loss_wrong_reduction", "distribution_shift", "tokenizer_mismatch")
    kinds = (FaultKind.LOG,)
    sources = (citations.TRANSFORMERS_35204,)
    telling = "loss"
    plans = 3
    severities = {
        Severity.SUBTLE: MicroBatches(micro_batches=2),
        Severity.CLEAR: MicroBatches(micro_batches=4),
        Severity.SEVERE: MicroBatches(micro_batches=8),
    }

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: MicroBatches, setup: Setup) -> list[Change]:
        count = knobs.micro_batches
        return [LogEdit(lambda row, before, since: {**row, "loss": count * row["loss"]})]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        over_rows = run["loss"] / run["row_loss_max"]
        end, usual = run["validation_loss"][-1], healthy["validation_loss"][-1]
        return {
            "the loss jumps in one step, to 1.7 times what it was and more": shapes.jumps_in_one_step(
                run["loss"], onset, 1.7
            ),
            "from then on it is over that of any row of its batch, which no mean can be": (over_rows[onset:] > 1).all(),
            "before, it never is": (over_rows[:onset] <= 1).all(),
            "the gradient norm does not jump": not shapes.jumps_in_one_step(run["grad_norm"], onset, 1.7),
            "the validation loss ends as a healthy run's, within a tenth of a nat": abs(end - usual) < 0.1,
        }

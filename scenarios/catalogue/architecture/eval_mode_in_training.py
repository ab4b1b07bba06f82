"""Training goes on in evaluation mode.

Failure: The first validation calls `eval()` and nobody calls `train()` again. From there on dropout is
    off in training: the curve looks better at once, and the model memorises its small data set.
Mechanism: Dropout adds a noise of variance p / (1 - p) * sum_i (w_i x_i)^2 to every sum, which acts as a penalty
    on weights that lean on few inputs (Wager et al. 2013). Without it the training loss falls by what the noise
    cost, and where rows come again for many epochs, what held memorising back is gone.
Injection: From the onset on the dropout rate is 0 in training.
Cure: Train mode again, twenty steps later.
Realism: The onset is drawn between a tenth and a fifth of the run, after the first validation. 128 rows are seen
    again and again, nineteen times in all; with fresh data at every step evaluation mode would be no loss here.
    Of what the mode switches only dropout is there.
References: Debugging training ("model not in train mode"; classical overfitting);
    Srivastava et al. 2014; Wager et al. 2013.
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@register
class EvalModeInTraining(Scenario):
    """Dropout off where it is wanted."""

    id = "eval_mode_in_training"
    family = Family.ARCHITECTURE
    kinds = (FaultKind.SETTING,)
    sources = (citations.DEBUGGING,)
    telling = "validation_loss"
    onset = MidRun(0.1, 0.2)
    cure_after = 20

    def base(self, setup: Setup) -> Setup:
        return replaced(bases.chain(setup), data__pool=128, dropout=0.2)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Setting("dropout", 0.0)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, usual, (_, values) = run["loss"], healthy["loss"], run.evaluations
        return {
            "the training loss is under the twin's right after the onset": (
                shapes.steps_above(usual, loss, onset, margin=0.015, last=16)
            ),
            "the training loss ends far under the twin's": shapes.falls_under(loss, usual, margin=0.2),
            "the validation loss climbs from its lowest": values[-1] > values.min() + 0.15,
            "the validation loss ends above the twin's": run.final_loss() > healthy.final_loss() + 0.15,
        }

"""The average of the weights that is evaluated is hardly updated.

Failure: Evaluation and export take an exponential moving average of the weights. With a decay too near to 1
    it lags far behind, and with 1, an update that is never called, it stands still.
Mechanism: a <- d a + (1 - d) w remembers 1 / (1 - d) steps. While the weights w still move, a of 10 steps is
    a calmer w; a of 1000 steps in a run of 300 is a w of long ago.
Injection: From the onset on the decay is `decay` in place of the base's 0.9.
Also seen: The training loss goes on falling. Training is bitwise the twin's.
Cure: The right decay: within some dozens of steps the average has caught up.
Realism: Stands for a decay of 0.9999 copied from a run of a million steps, and for `ema.update()` left out of a
    rewritten loop.
References: Debugging Divergent Loss During Training (EMA versions of weights); Polyak and Juditsky 1992; Tarvainen
    and Valpola 2017 (decay warm-up).
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Decay(Knobs):
    """Decay of the average, 1 for one that is never updated."""

    decay: float = 1.0


@register
class EmaMisused(Scenario):
    """An average that does not follow."""

    id = "ema_misused"
    family = Family.STATE
    kinds = (FaultKind.SETTING,)
    sources = (citations.DIVERGENT_LOSS,)
    telling = "validation_loss"
    onset = MidRun(0.12, 0.2)
    knobs = Decay()
    cure_after = 100

    def base(self, setup: Setup) -> Setup:
        return replaced(chain(setup), evaluation__average=0.9)

    def fault(self, knobs: Decay, setup: Setup) -> list[Change]:
        return [Setting("evaluation.average", knobs.decay)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        n = min(len(run), len(healthy))
        after = (run.evaluated[:n] & healthy.evaluated[:n])[onset + 30 :]
        held_out = (run["validation_loss"][onset + 30 : n] - healthy["validation_loss"][onset + 30 : n])[after]
        train = run["loss"][onset:n] - healthy["loss"][onset:n]
        return {
            "the training loss stays within 0.03 nats of the twin's at every step": abs(train).max() < 0.03,
            "from thirty steps after the onset on the validation loss is above the twin's": bool(
                (held_out > 0.02).all()
            ),
        }

"""The average of the weights that is evaluated is hardly updated.

Failure: Evaluation and export take an exponential moving average of the weights. With a decay too near to 1
    it lags far behind, and with 1, an update that is never called, it stands still.
Mechanism: a <- d a + (1 - d) w remembers 1 / (1 - d) steps. While the weights w still move, a of 10 steps is
    a calmer w; a of 1000 steps in a run of 300 is a w of long ago.
Injection: From the onset on the decay is `decay` in place of the base's 0.9.
Signature: Training is bitwise the twin's and its loss goes on falling; the validation loss, measured on the average,
    stops falling at the onset or lags behind, and ends above.
Cure: The right decay: within some dozens of steps the average has caught up.
Realism: Stands for a decay of 0.9999 copied from a run of a million steps, and for `ema.update()` left out of a
    rewritten loop.
References: Debugging Divergent Loss During Training (EMA versions of weights); Polyak and Juditsky 1992; Tarvainen
    and Valpola 2017 (decay warm-up).
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.catalogue.bases import chain
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, MidRun, Scenario


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

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        after = run.evaluated & (np.arange(len(run)) >= onset + 30)
        held_out = run["validation_loss"][after] - healthy["validation_loss"][after]
        train = np.mean(run["loss"][onset:] - healthy["loss"][onset:])
        return bool((held_out[:-1] > 0.02).all() and abs(train) < 0.03)

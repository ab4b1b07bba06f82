"""The model has only ever read the truth, and now reads what it has written.

Failure: On given tokens the loss is as low as it can be. What the model generates goes astray, and the further the
    longer it is: no wrong token is ever made up for.
Mechanism: With the truth as input it is enough to go on from the token before. At a wrong token that rule goes on from
    there: where each token is wrong with chance e, a share of 1 - (1 - e)^t of texts is by the t-th. Nothing in
    training, where no token before is wrong, has an error to learn another rule from.
Injection: From step 0 on training reads true tokens alone; a healthy run reads its own at half of the places.
Also seen: Through the cache and read at once, tokens have the same chances: the cache is right.
Cure: Scheduled sampling, as in a healthy run, three steps later. It comes late where the shortcut is learnt: ten steps
    later one of eight runs was not there yet at the end.
Realism: Smoothed labels leave a tenth of the chances to wrong tokens, and texts are drawn, not chosen; so a wrong token
    comes soon. In a language with one right continuation each of them costs all that follows.
References: Bengio et al. 2015, "Scheduled sampling"; Mihaylova and Martins 2019, "Scheduled sampling for transformers".
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class TeacherForcingMismatch(Scenario):
    """Trained on truth, evaluated on its own tokens."""

    id = "teacher_forcing_mismatch"
    family = Family.DECODING
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.SCHEDULED_SAMPLING,)
    telling = "free_late_loss"
    onset = None
    cure_after = 3

    def base(self, setup: Setup) -> Setup:
        return bases.refrain(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.DECODING)
        return [Setting("decoding.scheduled_sampling", 0.0)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(-len(run) // 4, None)
        return {
            "in the last quarter the loss on given tokens is within 0.1 nats of a healthy run's": (
                np.nanmax(abs(run["forced_loss"] - healthy["forced_loss"])[late]) < 0.1
            ),
            "that on its own tokens is over it by a nat and more": (
                np.nanmin((run["validation_loss"] - run["forced_loss"])[late]) > 1.0
            ),
            "and climbs with their number, from the first quarter of them to the last by a nat and more": (
                np.nanmin((run["free_late_loss"] - run["free_early_loss"])[late]) > 1.0
            ),
            "on given tokens it does not": np.nanmax((run["forced_late_loss"] - run["forced_loss"])[late]) < 0.1,
            "the cache is right: read at once, generated tokens have the same chances": (
                np.nanmax(run["cache_gap"]) < 0.01
            ),
        }

"""Evaluations on a few rows, resampled each time: a noisy validation curve.

Failure: None. To save time the validation loss is measured on `rows` rows, other ones each time, until
    the last evaluation, which sees the whole set. The curve jumps by several tenths of a nat from one
    point to the next; the training run is bitwise the twin's.
Mechanism: The mean over n tokens of -ln p has standard deviation sigma / sqrt(n), and sigma is about a
    nat. On a fixed set that error is the same each time and cancels from the curve; on fresh rows not.
Injection: From the onset on each evaluation but the last draws `rows` rows of the held-out set.
Realism: `limit_eval_batches` and its like with a shuffled loader. Simplified: one row, and an
    evaluation at every step, so that a short run has a curve.
References: Reading the Curves ("over a fixed held-out set, fixed so the curve is comparable across the
    whole run rather than drifting with whatever happened to be sampled").
"""

from dataclasses import dataclass

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Few(Knobs):
    """Rows of an evaluation."""

    rows: int = 1


@register
class BenignValidationNoise(Scenario):
    """A fresh row or two at each evaluation."""

    id = "benign_validation_noise"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("overfit_small_set",)
    kinds = (FaultKind.SETTING,)
    sources = (citations.READING_CURVES,)
    telling = "validation_loss"
    onset = MidRun(0.85, 0.92)
    knobs = Few()

    def base(self, setup: Setup) -> Setup:
        return replaced(chain(setup), evaluation__every=1, evaluation__rows=8)

    def fault(self, knobs: Few, setup: Setup) -> list[Change]:
        return [Setting("evaluation.sample", knobs.rows)]

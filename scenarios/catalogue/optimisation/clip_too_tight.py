"""The clipping threshold is far under the usual gradient norm.

Failure: Every gradient is cut down to the threshold, the ordinary ones too. The run learns, at a fraction of
    its pace, as if its learning rate were that fraction.
Mechanism: Momentum adds up min(1, c / |g|) * g. With c far under |g| each has length c, whatever |g| is: SGD on
    the direction of the gradient alone.
Injection: `clip` is set from step 0 on, under SGD. Adam divides by the gradient's size again and does not
    care.
Cure: A fifth of the way in, the threshold is raised to the healthy one.
Realism: "Stuck at clipping threshold" is the norm where it is logged after clipping; the norm before clipping,
    logged here, stands over it.
References: Debugging training ("stuck at clipping threshold indicates the threshold is too low. Raise it");
    Pascanu et al. 2013.
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Clip(Knobs):
    """Largest gradient norm let through."""

    clip: float = 0.015


@register
class ClipTooTight(Scenario):
    """Clipping that engages at every step."""

    id = "clip_too_tight"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING,)
    sources = (citations.DEBUGGING,)
    telling = "clip_coef"
    onset = None
    severities = {
        Severity.SUBTLE: Clip(clip=0.03),
        Severity.CLEAR: Clip(clip=0.015),
        Severity.SEVERE: Clip(clip=0.005),
    }
    cure_after = 60

    def base(self, setup: Setup) -> Setup:
        return bases.chain_sgd_clipped(setup)

    def fault(self, knobs: Clip, setup: Setup) -> list[Change]:
        return [Setting("optimizer.clip", knobs.clip)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        return {
            "clipping engages at every step": run["clip_coef"].max() < 1,
            "the clip coefficient is under a tenth": np.median(run["clip_coef"]) < 0.1,
            "40 steps in the loss is late": shapes.steps_above(run["loss"], healthy["loss"], 0, 0.3, first=40, last=60),
            "the loss ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.06),
        }

"""A diffusion model is sampled and evaluated with the weights of its last step, not with their average.

Failure: From one evaluation to the next losses and samples get better and worse, though training is as calm as ever.
Mechanism: At a rate that does not fall each update moves the weights about a place that they never reach. Their average
    over the last steps is nearer to it, by as much as the noise of single steps cancels.
Injection: From the onset on the weights themselves are evaluated and sampled, in place of their average with a decay of
    0.97 a step.
Also seen: Training is bitwise the twin's.
Cure: The average again, which starts at the weights of then.
Realism: Diffusion models are nearly always sampled with an average over thousands of steps; this one is over some
    thirty, in a run of three hundred at a high rate, which stands for the same.
References: Ho et al. 2020 (an average with a decay of 0.9999); Sahoo et al. 2024; Polyak and Juditsky 1992.
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@register
class DiffusionNoEma(Scenario):
    """Raw weights, sampled."""

    id = "diffusion_no_ema"
    family = Family.DIFFUSION
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.DDPM, citations.MASKED_DIFFUSION)
    telling = "validation_loss"
    onset = MidRun(0.3, 0.45)
    cure_after = 25
    tolerance = 0.03  # the twin has the same weights: what is left is the evaluation alone

    def base(self, setup: Setup) -> Setup:
        return bases.denoiser(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.DIFFUSION)
        return [Setting("evaluation.average", 0.0)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        n = min(len(run), len(healthy))
        at = onset + np.flatnonzero(np.isfinite(run["validation_loss"][onset:n] + healthy["validation_loss"][onset:n]))
        own, usual = run["validation_loss"][at], healthy["validation_loss"][at]
        return {
            "from the onset on the loss that is evaluated is that of the weights themselves": bool(
                (own == run["raw_loss"][at]).all()
            ),
            "in a healthy run it is not": bool((usual != healthy["raw_loss"][at]).all()),
            "from one evaluation to the next it moves further than a healthy run's, by a third and more": (
                np.abs(np.diff(own)).mean() > 1.33 * np.abs(np.diff(usual)).mean()
            ),
            "in the mean it is over a healthy run's by 0.02 nats and more": (own - usual).mean() > 0.02,
        }

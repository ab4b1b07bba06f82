"""A diffusion model is trained on a noise schedule that ends where that of sampling has hardly begun.

Failure: The training loss is low, and samples are poor. By timestep the loss is fine where little is masked and far off
    where much is.
Mechanism: Sampling begins at a row of nothing but masks. A model that was trained up to a share `noisiest` of masks has
    never seen one: it reads what it is given as it would read a row that is nearly whole, and is sure of what it cannot
    know. Its first tokens are wrong, and all others are made to fit them.
Injection: From step 0 on the schedule of training ends at `noisiest` in place of 1, so that a row has one masked token.
    Held-out rows and samples have the whole one.
Also seen: The training loss is far under the validation loss, which averages over all timesteps.
Cure: The schedule of sampling, twenty steps later.
Realism: Schedules of images often end with some signal left, by the numbers that a library has as its defaults; the
    share that is missing is smaller there, and shows in brightness. Here most of the schedule is.
References: Lin et al. 2024 (schedules that do not end in noise alone); Sahoo et al. 2024 (schedules of masks).
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import bases, citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Noisiest(Knobs):
    """Share of a row's tokens that is masked at the end of training's schedule."""

    noisiest: float = 0.05


@register
class DiffusionScheduleMismatch(Scenario):
    """A schedule that ends before sampling begins."""

    id = "diffusion_schedule_mismatch"
    family = Family.DIFFUSION
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.FLAWED_SCHEDULES, citations.MASKED_DIFFUSION)
    telling = "denoise_late"
    knobs = Noisiest()
    onset = None
    cure_after = 20
    tolerance = 0.1

    def base(self, setup: Setup) -> Setup:
        return bases.denoiser(setup)

    def fault(self, knobs: Noisiest, setup: Setup) -> list[Change]:
        bases.require_diffusion(setup)
        return [Setting("diffusion.noisiest", knobs.noisiest)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(-len(run) // 4, None)
        names = ("denoise_early", "denoise_late", "sample_violations")
        early, noisy, wrong = (np.nanmean((run[name] - healthy[name])[late]) for name in names)
        return {
            "in the last quarter the loss of the noisiest rows is over a healthy run's by half a nat and more": noisy
            > 0.5,
            "by 0.3 nats more than that of nearly clean rows is": noisy > early + 0.3,
            "a share of 0.02 and more of the sampled tokens breaks the language's rules beyond that": wrong > 0.02,
            "the training loss is under the validation loss by 0.3 nats and more": (
                np.nanmean((run["validation_loss"] - run["loss"])[late]) > 0.3
            ),
        }

"""The noisiest timesteps dominate the loss of a diffusion model.

Failure: Samples get worse in training. Losses by timestep drift apart: that of nearly clean rows rises most.
Mechanism: Updates serve the timesteps that have nearly all of the loss, and what cleaner rows need is overwritten.
Injection: From the onset on a row at timestep t counts (1 + emphasis) t ^ emphasis times in the training loss. How
    timesteps are drawn stays. At 20 the upper tenth of them has nine tenths of the weight.
Also seen: The training loss jumps at the onset, since noisy rows cost more; it is on another scale from then on.
    A batch is worth a few of its rows, and its gradient is as noisy as theirs.
Cure: All timesteps count alike again.
Realism: Stands for a weight of the loss that was made for another parametrization or another schedule. In a model of
    images the weights are over signal-to-noise ratios, here over shares of masked tokens.
References: Hang et al. 2023 (timesteps in conflict); Ho et al. 2020 (the weights of the bound).
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario, Severity


@dataclass(kw_only=True)
class Emphasis(Knobs):
    """Power of the timestep in a row's weight."""

    emphasis: float


@register
class DiffusionTimestepImbalance(Scenario):
    """A loss of the noisiest timesteps alone."""

    id = "diffusion_timestep_imbalance"
    family = Family.DIFFUSION
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.MIN_SNR, citations.DDPM)
    telling = "denoise_early"
    severities = {
        Severity.SUBTLE: Emphasis(emphasis=15.0),
        Severity.CLEAR: Emphasis(emphasis=20.0),
        Severity.SEVERE: Emphasis(emphasis=40.0),
    }
    onset = MidRun(0.2, 0.35)
    cure_after = 50
    tolerance = 0.1

    def base(self, setup: Setup) -> Setup:
        return bases.denoiser(setup)

    def fault(self, knobs: Emphasis, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.DIFFUSION)
        return [Setting("diffusion.emphasis", knobs.emphasis)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(-len(run) // 4, None)
        names = ("denoise_early", "denoise_late", "sample_violations")
        early, noisy, wrong = (np.nanmean((run[name] - healthy[name])[late]) for name in names)
        return {
            "in the last quarter the loss of nearly clean rows is over a healthy run's by 0.12 nats and more": early
            > 0.12,
            "by more than that of the noisiest rows is": early > noisy + 0.03,
            "a share of 0.08 and more of the sampled tokens breaks the language's rules beyond that": wrong > 0.08,
        }

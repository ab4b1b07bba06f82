"""Weights of the timesteps change in mid-run, and the training loss is on another scale.

Failure: None. The training loss of a diffusion model jumps, and stays up. Losses by timestep, the bound on held-out
    rows and samples go on as they were.
Mechanism: A loss is a mean over timesteps by weight. Noisy ones cost more, so that more weight on them is a larger
    loss of the same model. Weights that leave no timestep out change little of what is learnt.
Injection: From the onset on a row at timestep t counts (1 + emphasis) t ^ emphasis times in the training loss.
Realism: Weights by the signal-to-noise ratio are common, and are switched on in mid-run when a model is tuned further.
References: Hang et al. 2023, "Efficient diffusion training via min-SNR weighting strategy".
"""

from dataclasses import dataclass

from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Emphasis(Knobs):
    """Power of the timestep in a row's weight."""

    emphasis: float = 2.0


@register
class BenignTimestepWeights(Scenario):
    """A loss by other weights."""

    id = "benign_timestep_weights"
    family = Family.LOOK_ALIKE
    plans = 3
    look_alike = True
    imitates = ("diffusion_timestep_imbalance",)
    kinds = (FaultKind.SETTING,)
    sources = (citations.MIN_SNR,)
    telling = "loss"
    knobs = Emphasis()
    onset = MidRun(0.5, 0.7)

    def base(self, setup: Setup) -> Setup:
        return bases.denoiser(setup)

    def fault(self, knobs: Emphasis, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.DIFFUSION)
        return [Setting("diffusion.emphasis", knobs.emphasis)]

"""The loss of pictures swamps that of captions, which are hardly learnt.

Failure: The training loss looks healthy, and falls; pictures are learnt as well as ever. What is said of them is not:
    the captions' loss stalls.
Mechanism: One number is minimised. Where one modality counts many times more, its gradient, and the noise of it, sets
    the length of each step (Adam divides by it, clipping cuts it), and what shared weights could learn for the other
    modality is lost in it.
Injection: From the onset on a token of a picture counts `weight` times one of a caption.
Also seen: Words are learnt as far as their frequencies go, and little by little from the picture: what needs attention
    is learnt late or never.
Cure: Both count alike again.
Realism: Stands for losses of different units or lengths that are added up, reconstruction beside text for example. Here
    both are cross entropies of one stream of tokens.
References: Debugging Divergent Loss During Training (2025), on one modality whose loss dominates; Wang et al. 2020
    (modalities that are learnt at different speeds); Chen et al. 2018 (GradNorm, which balances them).
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
class Weight(Knobs):
    """How many times a token of a caption one of a picture counts."""

    weight: float = 550.0

    def __post_init__(self) -> None:
        if not 1 < self.weight < float("inf"):
            raise ValueError(f"fault.weight: {self.weight} is not allowed; allowed: over 1")


@register
class MultimodalLossImbalance(Scenario):
    """Pictures count far more than their captions."""

    id = "multimodal_loss_imbalance"
    family = Family.MODALITIES
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.DIVERGENT_LOSS, citations.GRADIENT_BLENDING, citations.GRAD_NORM)
    telling = "caption_loss"
    severities = {
        Severity.SUBTLE: Weight(weight=350.0),
        Severity.CLEAR: Weight(weight=550.0),
        Severity.SEVERE: Weight(weight=800.0),
    }
    onset = MidRun(0.05, 0.1)
    cure_after = 20

    def base(self, setup: Setup) -> Setup:
        return bases.captions(setup)

    def fault(self, knobs: Weight, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.MODALITIES)
        return [Setting("modalities.picture_weight", knobs.weight)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(-len(run) // 4, None)
        return {
            "in the last quarter the held-out loss of pictures is within 0.05 nats of a healthy run's": (
                np.nanmax(abs(run["picture_loss"] - healthy["picture_loss"])[late]) < 0.05
            ),
            "that of captions is over it by 0.2 nats and more at every evaluation there": (
                np.nanmin((run["caption_loss"] - healthy["caption_loss"])[late]) > 0.2
            ),
            "the training loss there is within 0.05 nats of that of pictures, a healthy run's 0.15 under it and more": (
                abs(_over_pictures(run, late)) < 0.05 and _over_pictures(healthy, late) < -0.15
            ),
        }


def _over_pictures(run: Trace, part: slice) -> float:
    """How far the training loss is over the held-out loss of pictures, on average."""
    return float(run["loss"][part].mean() - np.nanmean(run["picture_loss"][part]))

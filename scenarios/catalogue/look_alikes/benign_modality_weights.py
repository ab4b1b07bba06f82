"""Pictures count less from mid-run on, and the training loss is on another scale.

Failure: None. The training loss of a model of pictures and captions falls at once, and parts from the held-out one.
    Held-out losses of either modality go on as they were.
Mechanism: A loss is a mean over tokens by weight. The tones of pictures are chance, and words are known by then: less
    weight on pictures is a smaller loss of the same model.
Injection: From the onset on a token of a picture counts `weight` times one of a caption.
Realism: Weights of modalities are tuned, and changed when a run goes on from a checkpoint.
References: Chen et al. 2018, "GradNorm: gradient normalization for adaptive loss balancing", on weights that change.
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
class Less(Knobs):
    """How many times a token of a caption one of a picture counts."""

    weight: float = 0.02


@register
class BenignModalityWeights(Scenario):
    """Less weight on the modality that is partly chance."""

    id = "benign_modality_weights"
    family = Family.LOOK_ALIKE
    plans = 3
    look_alike = True
    imitates = ("multimodal_loss_imbalance",)
    kinds = (FaultKind.SETTING,)
    sources = (citations.GRAD_NORM,)
    telling = "loss"
    knobs = Less()
    onset = MidRun(0.55, 0.7)

    def base(self, setup: Setup) -> Setup:
        return bases.captions(setup)

    def fault(self, knobs: Less, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.MODALITIES)
        return [Setting("modalities.picture_weight", knobs.weight)]

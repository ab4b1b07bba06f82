"""Warm-up is removed where the model needs it.

Failure: The learning rate starts at its peak. A Post-LN model takes a few violent steps, its deep
    layers saturate, and it never learns more than how often each token occurs.
Mechanism: At initialisation a Post-LN model has large gradients near the output (Xiong et al. 2020),
    and Adam's first steps have size lr whatever the gradient, in directions known from one batch:
    |m / sqrt(v)| = 1. Warm-up keeps lr small until both have settled.
Injection: `warmup_steps` is 0 from step 0 on; the peak and the decay stay. There is no scale: with one
    to three steps of warm-up left, most seeds fail as badly and a few nearly get away.
Cure: A warm-up four fifths as long as the twin's, from the start: what it needs, not the twin again.
Realism: The documented failure of the original transformer without warm-up (BLEU 8 against 34 in
    Xiong et al.). Eight narrow layers with Xavier initialisation; shallower ones do without warm-up.
References: Debugging Training Instability; Reading the Curves; Debugging training (loss diverges);
    Xiong et al. 2020, "On layer normalization in the transformer architecture".
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.config import Placement
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.settings import Setup, get, replaced
from trainwreck.scenarios.config.sizes import Size
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Warmup(Knobs):
    """Steps of warm-up that are left."""

    warmup_steps: int = 0


@register
class NoWarmup(Scenario):
    """Warm-up removed under Post-LN and Adam."""

    id = "no_warmup"
    family = Family.OPTIMISATION
    sizes = (Size.DEEP,)
    kinds = (FaultKind.SETTING,)
    sources = (citations.INSTABILITY, citations.READING_CURVES, citations.DEBUGGING)
    telling = "layer_grad_norm"
    onset = None
    knobs = Warmup()
    tolerance = 0.08  # 16 healthy runs of this base end 0.083 nats apart

    def base(self, setup: Setup) -> Setup:
        init = replaced(setup, model__init__matrix_std=0.14).model.init
        return replaced(
            setup,
            model__layers=8,
            model__placement=Placement.POST,
            model__init=init,
            optimizer__lr=7.5e-3,
            schedule__warmup_steps=200,
            schedule__final_fraction=0.0,
        )

    def fault(self, knobs: Warmup, setup: Setup) -> list[Change]:
        return [Setting("schedule.warmup_steps", knobs.warmup_steps)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        over = shapes.smooth(run["loss"] - run["token_entropy"], 20)[40:]
        return {
            "from step 40 on 9 in 10 means of 20 losses are within 0.4 nats of the tokens' entropy": shapes.pinned_at(
                over, 0.0, 0.4
            ),
            "the loss ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.2),
        }

    def cure(self, knobs: Warmup, setup: Setup) -> list[Change]:
        return [Setting("schedule.warmup_steps", get(setup, "schedule.warmup_steps") * 4 // 5)]

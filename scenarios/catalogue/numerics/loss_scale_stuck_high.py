"""A static loss scale that every gradient overflows under.

Failure: The loss scale is fixed at a value that float16 gradients cannot take. Every step overflows and
    is skipped: the job runs, the learning rate moves, the weights do not.
Mechanism: float16 gradients hold S * g up to 65504. With S = 2^28 any g over 2.4e-4 is infinite; a
    skipped step leaves weights and moments as they were, and a static S never backs off.
Injection: At the onset the run resumes with a static scale of `scale` in place of its dynamic one.
Cure: Dynamic scaling, thirty steps later: the scale is halved at every overflow until the steps go
    through again.
Realism: Stands for a scale copied from another model, or a restored scaler state. Simplified: the scale is
    far too high, so that no batch passes.
References: Debugging Divergent Loss During Training (loss scaling); Debugging Training Instability ("tweak
    the AMP loss scale, or use dynamic loss-scaling"); Micikevicius et al. 2018.
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain_fp16
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, State, StateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Scale(Knobs):
    """The static loss scale."""

    scale: float = 2.0**28


@register
class LossScaleStuckHigh(Scenario):
    """A loss scale that never backs off."""

    id = "loss_scale_stuck_high"
    family = Family.NUMERICS
    kinds = (FaultKind.SETTING, FaultKind.STATE)
    sources = (citations.DIVERGENT_LOSS, citations.INSTABILITY)
    telling = "skipped"
    onset = MidRun(0.15, 0.3)
    knobs = Scale()
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return chain_fp16(setup)

    def fault(self, knobs: Scale, setup: Setup) -> list[Change]:
        def static(state: State, earlier: State) -> State:
            import torch

            return {**state, "loss_scale": torch.full_like(state["loss_scale"], knobs.scale)}

        return [Setting("precision.dynamic", False), StateEdit(static)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        scales = run["loss_scale"][onset:]
        held_out = run["validation_loss"][onset:][run.evaluated[onset:]]
        frozen = np.isfinite(held_out).all() and np.ptp(held_out) == 0.0
        return {
            "from the onset on 9 in 10 steps are skipped": shapes.pinned_at(run["skipped"][onset:], 1.0, 0.0),
            "the loss scale is constant": np.ptp(scales) == 0.0,
            "the held-out loss is bitwise constant": frozen,
        }

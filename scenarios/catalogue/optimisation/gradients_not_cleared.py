"""Gradients are not cleared between steps.

Failure: Each step's gradient is added to all before it. The gradient norm grows from step to step, the
    direction is that of long ago, and the loss climbs steadily.
Mechanism: The optimizer gets G_t = g_1 + ... + g_t, momentum without forgetting: its mean age is t / 2, and
    its length grows as t while the gradients agree, as sqrt(t) while they don't.
Injection: From the onset on gradients are kept; at the onset there are none yet.
Signature: The gradient norm climbs to many times its level within some tens of steps, and the loss with it,
    for good.
Cure: They are cleared again from the eighth step on.
Realism: The forgotten `zero_grad`, or an accumulation counter that never comes round. Clipping at 1 is on and
    does not help: it bounds the length and keeps the direction.
References: Debugging Training Instability (gradients that accumulate across steps).
"""

import dataclasses

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import Layout
from trainwreck.models.parametrization import Updates
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import bases, citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, UpdateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@register
class GradientsNotCleared(Scenario):
    """zero_grad is missing."""

    id = "gradients_not_cleared"
    family = Family.OPTIMISATION
    kinds = (FaultKind.TENSOR,)
    sources = (citations.INSTABILITY,)
    telling = "grad_norm"
    cure_after = 8

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def keep(updates: Updates, plan: Layout) -> Updates:
            import torch

            return dataclasses.replace(updates, kept_N=torch.ones(1, dtype=torch.bool))

        return [UpdateEdit(keep)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        norm = run["grad_norm"]
        level = np.median(norm[onset - 20 : onset])
        grows = 2 * level < norm[onset + 10 : onset + 15].mean() < norm[onset + 40 : onset + 45].mean() / 2
        return bool(grows) and shapes.diverges(run["loss"], rise=0.5)

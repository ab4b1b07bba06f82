"""Gradients are not cleared between steps.

Failure: Each step's gradient is added to all before it. The gradient norm grows from step to step, the
    direction is that of long ago, and the loss climbs steadily.
Mechanism: The optimizer gets G_t = g_1 + ... + g_t, momentum without forgetting: its mean age is t / 2, and
    its length grows as t while the gradients agree, as sqrt(t) while they don't.
Injection: From the onset on gradients are kept; at the onset there are none yet.
Cure: They are cleared again eight steps later.
Realism: The forgotten `zero_grad`, or an accumulation counter that never comes round. Clipping at 1 is on and
    does not help: it bounds the length and keeps the direction.
References: Debugging Training Instability (`optimizer.zero_grad()`; "validate gradient accum steps").
"""

import dataclasses

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import Layout
from trainwreck.models.parametrization import Updates
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, UpdateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


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

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        norm = np.pad(run["grad_norm"], (0, 45), constant_values=np.nan)  # where the run has ended
        level, soon, later = (norm[onset + a : onset + b] for a, b in ((-20, 0), (10, 15), (40, 45)))
        return {
            "ten steps after the onset the gradient norm is over twice its level": soon.mean() > 2 * np.median(level),
            "thirty steps later it is over twice that": later.mean() > 2 * soon.mean(),
            "the loss turns up for good, by half a nat or more": shapes.diverges(run["loss"], rise=0.5),
        }

"""Micro-batch gradients are summed where they should be averaged.

Failure: Gradient accumulation over k micro-batches without the division by k. Under SGD every step is k
    times too long; the loss climbs until it is not finite, while the code of each part looks right.
Mechanism: k * mean(g) in place of mean(g): lr * k is the rate that counts, and past 2 (1 + beta) / h along the
    sharpest direction, curvature h, it overshoots (beta: the momentum).
Injection: The gradient is multiplied by `micro_batches`, from step 0 on.
Cure: Average, from the third step on.
Realism: SGD without clipping. Adam divides the factor out again, and a clip at 1 hides it: there this
    slip shows in the norm alone.
References: Debugging Training Instability (gradient accumulation).
"""

import dataclasses
from dataclasses import dataclass

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


@dataclass(kw_only=True)
class Accumulation(Knobs):
    """Micro-batches whose gradients are summed."""

    micro_batches: int = 16


@register
class GradAccumulationUnscaled(Scenario):
    """Sum of micro-batch gradients, not their mean."""

    id = "grad_accumulation_unscaled"
    family = Family.OPTIMISATION
    kinds = (FaultKind.TENSOR,)
    sources = (citations.INSTABILITY,)
    telling = "grad_norm"
    onset = None
    knobs = Accumulation()
    cure_after = 2

    def base(self, setup: Setup) -> Setup:
        return bases.chain_sgd(setup)

    def fault(self, knobs: Accumulation, setup: Setup) -> list[Change]:
        def add_up(updates: Updates, plan: Layout) -> Updates:
            import torch

            return dataclasses.replace(updates, gain_N=torch.full((1,), float(knobs.micro_batches)))

        return [UpdateEdit(add_up)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, (mine, other) = run["loss"], (t["grad_norm"][0] for t in (run, healthy))
        above = shapes.plateaus_above(loss, healthy["loss"], margin=0.1)
        return {
            "the gradient norm of the first step is over 4 times a healthy run's": mine > 4 * other,
            "its loss is a healthy run's": abs(loss[0] - healthy["loss"][0]) < 1e-3,
            "the loss ends above, or turns up for good": above or shapes.diverges(loss, rise=0.4),
        }

"""The optimizer holds the wrong parameters: the effective learning rate is zero.

Failure: The loss stands still from one step to the next while the gradients are as alive as before, and the
    log shows the learning rate that the schedule was asked for.
Mechanism: The parameters that compute were replaced by copies after the optimizer was made. Each
    update goes to weights that nothing reads: theta(t + 1) = theta(t) for those in the model.
Injection: From the onset on no weight moves; gradients, moments and learning rate go on as before.
Cure: Thirty steps later the optimizer is given the model's own parameters.
Realism: Stands for a model wrapped, cast or reloaded after its optimizer was built. Simplified: all
    parameters at once. A learning rate that is truly zero shows in the log of the rate, this does not.
References: Reading the Curves ("either the effective learning rate is zero"); Debugging training (loss
    exactly constant).
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
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@register
class EffectiveLRZero(Scenario):
    """No update reaches the weights that compute."""

    id = "effective_lr_zero"
    family = Family.SCHEDULE
    kinds = (FaultKind.TENSOR,)
    sources = (citations.READING_CURVES, citations.DEBUGGING)
    telling = "layer_update_ratio"
    onset = MidRun(0.06, 0.16)  # while there is still much to learn
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return bases.chain_lr_to_zero(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def detach(updates: Updates, plan: Layout) -> Updates:
            import torch

            return dataclasses.replace(updates, moves_NP=torch.zeros(1, plan.size, dtype=torch.bool))

        return [UpdateEdit(detach)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        ratio, norm = run["layer_update_ratio"].max(1), run["grad_norm"]
        still = shapes.collapses_to_zero(ratio, onset)
        level = np.median(norm[max(0, onset - 10) : onset])
        return {
            "the update ratio is 0 from the onset on": still and not ratio[onset:].any(),
            "the gradient norm keeps over half of its level": np.median(norm[onset:]) > 0.5 * level,
            "the loss ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.06),
        }

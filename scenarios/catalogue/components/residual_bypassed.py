"""The stream goes past a layer: neither of its branches is added.

Failure: One residual block is skipped. It still computes, but nothing of it arrives, and it learns
    nothing more.
Mechanism: x + 0 * f(x) = x, and with it df/dx and df/dw drop out of every gradient: the block's
    gradient is exactly 0, and Adam's moments and weight decay alone move it from then on.
Injection: From the onset on, the factor on attention and MLP of the first layer is 0.
Cure: The branches are added again, a few steps after the onset.
Realism: Stands for layer drop left on in one place, and for pipeline stages wired past each other.
    Simplified: both branches of the layer are skipped, since telemetry is by layer.
References: Reading the Curves ("log the gradient norm of every parameter"); Debugging training (residual
    connections); Fan et al. 2020; Huang et al. 2016.
"""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@dataclass(kw_only=True)
class Which(Knobs):
    """The layer, counted from 0."""

    layer: int = 0


@register
class ResidualBypassed(Scenario):
    """One layer's branches are not added."""

    id = "residual_bypassed"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.READING_CURVES, citations.DEBUGGING)
    telling = "layer_grad_norm"
    knobs = Which()
    cure_after = 8

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Which, setup: Setup) -> list[Change]:
        if not 0 <= knobs.layer < setup.model.layers:
            raise InputError(f"fault.layer: {knobs.layer} is not allowed; allowed: 0 to {setup.model.layers - 1}")

        def bypass(tables: "Tables", setup: Setup) -> "Tables":
            import torch

            gain = torch.ones(1, setup.model.layers, 2)
            gain[:, knobs.layer] = 0.0
            return dataclasses.replace(tables, branch_gain_NL2=gain)

        return [TableEdit(bypass)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        norms, ratios = run["layer_grad_norm"], run["layer_update_ratio"]
        gone = [shapes.pinned_at(norm, 0.0, tolerance=1e-9) for norm in norms[onset:].T]
        layer = int(np.argmax(gone))
        return {
            "one layer's gradient norm is 0 from the onset on, and no other's": sum(gone) == 1,
            "none is 0 right before": norms[onset - 1].min() > 0,
            "the layer's update ratio dies out": (
                np.median(ratios[-50:, layer]) < 0.1 * np.median(ratios[max(0, onset - 20) : onset, layer])
            ),
            "the loss jumps": shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.2),
        }

"""No residual path: the gradient dies on its way to the first layers.

Failure: The shortcut around the branches is missing, so each layer passes on only what it makes. The
    last layers learn what needs nothing from below, token frequencies, and the loss stays there.
Mechanism: With x <- f(x) in place of x <- x + f(x), the gradient of layer l is a product of the
    Jacobians above it, |g_l| ~ prod_{k > l} |J_k|, where the shortcut would have put I + J_k. Averaging
    over positions and saturating softmax and GELU make |J| < 1, and eight branches multiply it.
Injection: The factor on the shortcut is 0 in all four layers, from step 0.
Signature: The early layers' share of the gradient vanishes while the head's is as usual; the loss
    plateaus far above the twin.
Cure: The shortcut back, after sixty steps.
Realism: Norms are where they belong and don't help: what they rescale is the activation, not the
    path. Four layers do already what fifty did before residual networks.
References: Reading the Curves (gradient norm by layer: "near-zero gradients in the first few layers");
    Debugging training ("check residual connections"); He et al. 2016.
"""

import dataclasses
from typing import TYPE_CHECKING

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import bases, citations
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@register
class VanishingDepth(Scenario):
    """Four layers without a shortcut."""

    id = "vanishing_depth"
    family = Family.ARCHITECTURE
    kinds = (FaultKind.TENSOR,)
    sources = (citations.READING_CURVES, citations.DEBUGGING)
    telling = "layer_grad_norm"
    onset = None
    cure_after = 60

    def base(self, setup: Setup) -> Setup:
        return bases.deep_chain(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [TableEdit(without_shortcut)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        early = slice(20, 120)
        layers, reference = run["layer_grad_norm"][early, 1:], healthy["layer_grad_norm"][early, 1:]
        vanishes = shapes.vanishes_in_early_layers(layers, reference, factor=10)
        return vanishes and shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.3)


def without_shortcut(tables: "Tables", setup: Setup) -> "Tables":
    """Nothing goes past the branches."""
    import torch

    return dataclasses.replace(tables, shortcut_gain_NL2=torch.zeros(1, setup.model.layers, 2))

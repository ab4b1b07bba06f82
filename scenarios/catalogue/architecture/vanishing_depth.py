"""No residual path: the gradient dies on its way to the first layers.

Failure: The shortcut around the branches is missing, so each layer passes on only what it makes. The
    last layers learn what needs nothing from below, token frequencies, and the loss stays there.
Mechanism: With x <- f(x) in place of x <- x + f(x), attention averages over positions and nothing keeps
    tokens apart. After four layers their mean cosine is 0.96 at step 0 (the twin's: 0.43) and 1.00 by
    step 20: all say the same. The gradient of layer l is a product of the Jacobians above it, where the
    shortcut would have put I + J_k, and a branch that puts out a constant has J = 0.
Injection: The factor on the shortcut is 0 in all four layers, from step 0.
Cure: The shortcut back, after sixty steps.
Realism: Norms are where they belong and don't help: they rescale a token and don't tell it from others.
    Plain convolutional networks are hard to train as well, but under BatchNorm their gradients do not
    vanish (He et al. 2016).
References: Reading the Curves (gradient norm by layer: "the first few layers carry near-zero gradients");
    Debugging training ("check residual connections"); Dong et al. 2021, "Attention is not all
    you need: pure attention loses rank doubly exponentially with depth"; He et al. 2016, as the contrast.
"""

import dataclasses
from typing import TYPE_CHECKING

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

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
        return bases.chain_four_layers(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [TableEdit(without_shortcut)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        early = slice(20, 120)
        layers, reference = run["layer_grad_norm"][early, 1:], healthy["layer_grad_norm"][early, 1:]
        head, usual = layers[:, -1].sum(), reference[:, -1].sum()
        vanishes = shapes.vanishes_in_early_layers(layers, reference, factor=10)
        return {
            "the early layers' share of the gradient vanishes": vanishes,
            "the head's gradient norm is the twin's within a factor of three": usual / 3 < head < 3 * usual,
            "the loss plateaus far above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.3),
        }


def without_shortcut(tables: "Tables", setup: Setup) -> "Tables":
    """Nothing goes past the branches."""
    import torch

    return dataclasses.replace(tables, shortcut_gain_NL2=torch.zeros(1, setup.model.layers, 2))

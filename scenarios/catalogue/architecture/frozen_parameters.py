"""The transformer's layers are frozen while embedding and head train on.

Failure: `requires_grad` is off on the layers: left over from a stage that trained a new head, or set
    by a name pattern that matched too much. The loss falls, for a time as fast as ever.
Mechanism: A frozen weight has no gradient, so w_t = w_0. What stays is a trained embedding and head
    around random features, which learn mostly what depends on the last token.
Injection: From step 0 no gradient arrives at any weight of the layers.
Cure: The layers unfrozen after forty steps.
Realism: The check of the sources is to look for weights without a gradient before a long run.
References: Debugging training ("check that gradients flow to all parameters (no requires_grad=False
    accidentally)").
"""

import dataclasses

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
class FrozenParameters(Scenario):
    """requires_grad off on the layers."""

    id = "frozen_parameters"
    family = Family.ARCHITECTURE
    kinds = (FaultKind.TENSOR,)
    sources = (citations.DEBUGGING,)
    telling = "layer_grad_norm"
    onset = None
    cure_after = 40
    tolerance = 0.07  # 16 healthy runs of this base end 0.070 nats apart

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [UpdateEdit(freeze_layers)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        still = (run["layer_grad_norm"] == 0).all(0) & (run["layer_update_ratio"] == 0).all(0)
        return {
            "gradient norm and update of some layers are exactly 0 at every step": still.any(),
            "those of other layers are not": not still.all(),
            "the loss plateaus above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.1),
        }


def freeze_layers(updates: Updates, plan: Layout) -> Updates:
    """No gradient arrives at the weights of a layer."""
    import torch

    reaches = torch.ones(1, plan.size, dtype=torch.bool)
    for name, start, stop in plan.segments:
        if name.startswith("layer_"):
            reaches[:, start:stop] = False
    return dataclasses.replace(updates, reaches_NP=reaches)

"""Gradients underflow in float16 without a loss scale.

Failure: The loss is averaged over many micro-batches before the backward pass and not scaled up again.
    Most of what goes back is under the smallest number of float16 and arrives as zero.
Mechanism: float16 ends at 6e-8. A gradient of 1e-4 in a micro-batch is 1e-4 / k once the loss is divided by
    the k parts it is accumulated over; a scale S takes it back to S * 1e-4 / k.
Injection: From the onset on there is no scaler, and the loss is divided by `parts` before the backward pass.
    The gradient is multiplied by it afterwards, as the sum over that many equal parts is.
Signature: The first layers' share of the gradient falls, since what is left is rounded away on its way back,
    and the loss jumps and stalls above a run with a scaler. Nothing is skipped and nothing is infinite.
Cure: Dynamic scaling from a scale that fits.
Realism: Stands for float16 under gradient accumulation and wide data parallelism. Simplified: the parts are
    one batch, so `loss_scale` shows 1 / parts.
References: Debugging Divergent Loss During Training ("without proper loss scaling"; underflow); Debugging
    training (mixed precision needs loss scaling); Micikevicius et al. 2018, figure 3.
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.catalogue.bases import chain_fp16
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, State, StateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Parts(Knobs):
    """How many micro-batches the loss is averaged over."""

    parts: float = 2.0**13


@register
class Fp16NoLossScaling(Scenario):
    """Gradients too small for their format."""

    id = "fp16_no_loss_scaling"
    family = Family.NUMERICS
    kinds = (FaultKind.SETTING, FaultKind.STATE)
    sources = (citations.DIVERGENT_LOSS, citations.DEBUGGING)
    telling = "layer_grad_norm"
    knobs = Parts()
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return chain_fp16(setup)

    def fault(self, knobs: Parts, setup: Setup) -> list[Change]:
        return [Setting("precision.dynamic", False), scaled(1 / knobs.parts)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        last = slice(-60, None)
        above = np.mean(run["loss"][last]) - np.mean(healthy["loss"][last])
        early = shapes.vanishes_in_early_layers(run["layer_grad_norm"][last], healthy["layer_grad_norm"][last], 2.0)
        return bool(above > 0.05 and early and not run["skipped"][onset:].any())

    def cure(self, knobs: Parts, setup: Setup) -> list[Change]:
        return [Setting("precision.dynamic", True), scaled(setup.precision.loss_scale)]


def scaled(scale: float) -> StateEdit:
    """Training goes on with this loss scale."""

    def edit(state: State, earlier: State) -> State:
        import torch

        return {**state, "loss_scale": torch.full_like(state["loss_scale"], scale)}

    return StateEdit(edit)

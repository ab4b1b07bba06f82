"""Adapters get no gradient: the fine-tune runs to its end, and the model is still its base.

Failure: The loss falls a little and levels off far above where adapters could bring it. What is saved at the end are
    adapters whose second matrix is 0, that is, no adapters at all.
Mechanism: An adapter computes W + (alpha / r) A B with B = 0 at the start. Re-entrant recomputation of a layer's
    activations builds a graph only if some input of the layer requires a gradient. Behind a frozen embedding none does,
    so dL/dB is missing and B = 0 for ever; only what stands behind the last such layer is trained.
Injection: When the adapters are put on, no gradient arrives at them, from then on. The last norm trains, as in a
    healthy run.
Also seen: The validation loss, of the second language from then on, levels off too.
Cure: Inputs that require a gradient, five steps later: it arrives again.
Realism: Where nothing at all can be trained a framework raises an error; a norm, a head or a bias that is trained
    beside the adapters keeps it silent, here the last norm. The base was trained in the same run, with the whole model.
References: huggingface/peft#1142 (recomputation of activations and LoRA); Hu et al. 2021, LoRA.
"""

import dataclasses

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import LORA_A, LORA_B, Layout
from trainwreck.models.parametrization import Updates
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, UpdateEdit
from trainwreck.scenarios.spec.planned import ADAPTERS, adapter_step
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class LoraGetsNoGradient(Scenario):
    """Adapters that no gradient reaches."""

    id = "lora_gets_no_gradient"
    family = Family.FINE_TUNING
    plans = 3
    kinds = (FaultKind.TENSOR,)
    sources = (citations.PEFT_1142,)
    telling = "adapter_norm"
    onset = ADAPTERS
    cure_after = 5

    def base(self, setup: Setup) -> Setup:
        return bases.chain_adapters(setup)

    def onset_step(self, seed: int, steps: int) -> int:
        return adapter_step(seed, steps)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        requirements.positive(setup, "adapters.rank")
        return [UpdateEdit(without_adapters)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        grads, moved = run["layer_grad_norm"][onset:], run["layer_update_ratio"][onset:]
        return {
            "from the onset on the second matrices of the adapters are exactly 0": (
                (run["adapter_norm"][onset:] == 0).all()
            ),
            "as are gradient and update of every layer": not grads[:, 1:-1].any() and not moved[:, 1:-1].any(),
            "those of the last norm are not": (grads[:, -1] > 0).all() and (moved[:, -1] > 0).all(),
            "the loss plateaus above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.5),
        }


def without_adapters(updates: Updates, plan: Layout) -> Updates:
    """No gradient arrives at an adapter."""
    import torch

    whole = torch.ones(1, plan.size, dtype=torch.bool)
    reaches = whole if updates.reaches_NP is None else updates.reaches_NP.clone()
    for slot in plan.slots:
        if slot.name.endswith((LORA_A, LORA_B)):
            reaches[:, slot.start : slot.stop] = False
    return dataclasses.replace(updates, reaches_NP=reaches)

"""x

Failure: x
Mechanism: x
Injection: x
Cure: x
Realism: x
References: x
"""

import dataclasses

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.models.parameters import LORA_A, LORA_B, Layout
from trainwreck.models.parametrization import Updates
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import bases, citations
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
        bases.require_adapters(setup)
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
    reaches = updates.reaches_NP.clone()
    for slot in plan.slots:
        if slot.name.endswith((LORA_A, LORA_B)):
            reaches[:, slot.start : slot.stop] = False
    return dataclasses.replace(updates, reaches_NP=reaches)

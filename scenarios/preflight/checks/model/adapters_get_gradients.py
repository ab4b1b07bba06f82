"""Adapters behind frozen inputs: no graph is built for them, and what is saved at the end is nothing.

An adapter's second matrix begins at zero, so its first one gets no gradient at the first step; three steps are checked.
"""

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.preflight.check import Answer, Stage, check, failed, not_applicable, passed
from trainwreck.scenarios.preflight.checks.model.gradients_reach_all_parameters import (
    STEPS,
    by_autograd,
    by_stepping,
    listed,
)
from trainwreck.scenarios.preflight.subject import Preflight

MARK = "lora_"  # in the names of adapters, as peft and loralib have them


@check(
    Stage.MODEL,
    rule=f"every adapter, where there are some, gets a gradient within {STEPS} steps, and moves",
    source=citations.PEFT_1142,
)
def adapters_get_gradients(subject: Preflight) -> Answer:
    """Gradients by autograd; a `step` of the user's must move every adapter besides."""
    adapters = [name for name, _ in subject.model.named_parameters() if MARK in name]
    if not adapters:
        return not_applicable(f"no parameter has {MARK} in its name")
    reached, _ = by_autograd(subject)
    lost = [name for name in adapters if name not in reached]
    if lost:
        return failed(f"{listed(lost)} of {len(adapters)} adapter matrices without a gradient in {STEPS} steps")
    moved = set(adapters) if subject.step is None else by_stepping(subject)
    lost = [name for name in adapters if name not in moved]
    if lost:
        return failed(f"{listed(lost)} of {len(adapters)} adapter matrices not moved by {STEPS} training steps")
    return passed(f"all {len(adapters)} adapter matrices get a gradient within {STEPS} steps")

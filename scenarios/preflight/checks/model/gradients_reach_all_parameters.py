"""Whether every parameter learns.

A branch that begins at zero (LoRA, ReZero) passes no gradient back at the very first step, so three
steps are checked, and a parameter passes that gets a gradient in one of them.
"""

from fnmatch import fnmatch

import torch
from torch import Tensor, nn

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.preflight.check import Answer, Stage, check, failed, passed
from trainwreck.scenarios.preflight.subject import Preflight

STEPS, RATE = 3, 1e-3
SHOWN = 3  # names in the evidence


@check(
    Stage.MODEL,
    rule=f"every parameter gets a finite gradient that is not zero within {STEPS} steps, and moves",
    source=citations.DEBUGGING,
)
def gradients_reach_all_parameters(subject: Preflight) -> Answer:
    """Gradients by autograd; a `step` of the user's must move every parameter besides."""
    names = [name for name, _ in subject.model.named_parameters()]
    wanted = [name for name in names if not any(fnmatch(name, pattern) for pattern in subject.frozen)]
    off = {name for name, p in subject.model.named_parameters() if not p.requires_grad}
    if all(name in off for name in names):
        return failed(f"requires_grad is off for all {len(names)} parameters")
    of_all = f"of {len(wanted)} parameters"
    lost = [name for name in wanted if name in off]
    if lost:
        return failed(f"{listed(lost)} {of_all} with requires_grad off")
    left_out = unheld(subject, wanted)
    if left_out:
        return failed(f"{listed(left_out)} {of_all} not in the optimizer")
    reached, broken = by_autograd(subject)
    if broken:
        return failed(f"{listed(broken)} {of_all} with a gradient that is not finite")
    lost = [name for name in wanted if name not in reached]
    if lost:
        return failed(f"{listed(lost)} {of_all} without a gradient in {STEPS} steps")
    if subject.step is not None:
        moved = by_stepping(subject)
        lost = [name for name in wanted if name not in moved]
        if lost:
            return failed(f"{listed(lost)} {of_all} not moved by {STEPS} training steps")
    return passed(
        f"all {len(wanted)} parameters get a gradient within {STEPS} steps"
        + (" and move" if subject.step is not None else "")
    )


def by_autograd(subject: Preflight) -> tuple[set[str], list[str]]:
    """Names that got a gradient, and names whose gradient was not finite."""
    model = subject.copy()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=RATE)
    reached: set[str] = set()
    for _ in range(STEPS):
        _, grads = subject.gradients(model)
        broken = [name for name, grad in grads.items() if not bool(torch.isfinite(grad).all())]
        if broken:
            return reached, broken
        reached |= {name for name, grad in grads.items() if bool((grad != 0).any())}
        optimizer.step()
    return reached, []


def by_stepping(subject: Preflight) -> set[str]:
    """Names that the user's own step moves."""
    assert subject.step is not None, "asked only where there is one"
    model = subject.copy()
    before = values(model)
    for _ in range(STEPS):
        subject.step(model, subject.inputs, subject.targets)
    return {name for name, value in values(model).items() if not torch.equal(value, before[name])}


def unheld(subject: Preflight, wanted: list[str]) -> list[str]:
    """Names that the optimizer does not hold; none without an optimizer."""
    if subject.optimizer is None:
        return []
    held = {id(p) for group in subject.optimizer.param_groups for p in group["params"]}
    return [name for name, p in subject.model.named_parameters() if name in wanted and id(p) not in held]


def values(model: nn.Module) -> dict[str, Tensor]:
    """Parameters, copied."""
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def listed(names: list[str]) -> str:
    """How many, and the first few by name."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{len(names)} ({', '.join(names[:SHOWN])}{more})"

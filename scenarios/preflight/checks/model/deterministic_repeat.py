"""Whether two passes from the same seed are bitwise the same.

A run that can't be repeated can't be debugged: the failure may be gone when it is inspected.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.preflight.check import Answer, Stage, check, failed, passed
from trainwreck.scenarios.preflight.checks.model.gradients_reach_all_parameters import values
from trainwreck.scenarios.preflight.subject import Preflight, arguments, isolated


@check(
    Stage.MODEL,
    rule="loss, gradients and a training step are bitwise the same from the same seed; so is what the factory makes",
    source=citations.INSTABILITY,
)
def deterministic_repeat(subject: Preflight) -> Answer:
    """Do everything twice, each time with every global random stream seeded alike."""
    if subject.again is not None:
        first, second = (built(subject.again) for _ in range(2))
        different = differing(first, second)
        if different:
            return failed(f"the factory, called twice from one seed, makes another {different}")
    first, second = (passed_through(subject) for _ in range(2))
    different = differing(first, second)
    if different:
        return failed(f"two passes from one seed give another {different}")
    return passed(f"{len(first)} numbers and tensors are bitwise the same, twice from one seed")


def built(again: Callable[[], Preflight]) -> dict[str, Tensor]:
    """Parameters and batch of a fresh subject."""
    with isolated():
        made = again()
    batch = {f"input {i}": x for i, x in enumerate(arguments(made.inputs)) if isinstance(x, Tensor)}
    return {**batch, "targets": made.targets, **values(made.model)}


def passed_through(subject: Preflight) -> dict[str, Tensor]:
    """Loss and gradients of one pass, and the parameters after two steps of the user's."""
    with isolated():
        loss, grads = subject.gradients(subject.copy())
        found = {"loss": torch.tensor(loss)} | {f"gradient of {name}": grad for name, grad in grads.items()}
        if subject.step is not None:
            model = subject.copy()
            for _ in range(2):
                subject.step(model, subject.inputs, subject.targets)
            found |= {f"{name} after two steps": value for name, value in values(model).items()}
    return found


def differing(first: dict[str, Tensor], second: dict[str, Tensor]) -> str:
    """The first entry that is not the same, and by how much; empty where all are."""
    for name, a in first.items():
        b = second.get(name)
        if b is None or a.shape != b.shape:
            return f"{name}: another shape"
        if not torch.equal(torch.nan_to_num(a.float()), torch.nan_to_num(b.float())):
            return f"{name}: off by up to {float((a.float() - b.float()).abs().max()):.2g}"
    return ""

"""Whether the model can memorise 32 examples.

Near zero is 5 % of what a guess costs (of the first loss, where targets are no classes): 0.2 nats with 64
classes, where the right answer has a probability of 0.8. Rows that begin alike and go on differently can't
be told apart there, so nothing is not asked.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.preflight.check import Answer, Stage, check, failed, not_applicable, passed
from trainwreck.scenarios.preflight.subject import BY_HEART, Preflight, log_classes, share, without_dropout

EVERY, RATE = 10, 3e-2  # of Adam, at its largest
NEAR_ZERO = 0.05


@check(
    Stage.TRAINING,
    rule=f"on 32 targets, without dropout, the loss comes under {NEAR_ZERO:.0%} of a guess's in {BY_HEART} steps",
    source=citations.DEBUGGING,
)
def overfit_tiny_subset(subject: Preflight) -> Answer:
    """Train a copy on the first rows, with the user's step or with Adam."""
    if subject.trained:  # a healthy run at the edge of its learning rate can't unlearn so fast
        return not_applicable("the model is past its initialisation: what it has learnt stands in the way")
    inputs, targets = subject.tiny()
    model = without_dropout(subject.copy())
    began = measured(subject, model, inputs, targets)
    guess = began
    if subject.classified:
        guess = log_classes(subject.logits(subject.output(model, inputs), targets).shape[-1])
    elif not began > 0:
        return not_applicable(f"the loss begins at {began:.3g}: near zero says nothing of it")
    near_zero = NEAR_ZERO * guess
    scored = int((targets != subject.ignore_index).sum())
    best = began
    act = stepper(subject, model)
    for step in range(1, BY_HEART + 1):
        act(inputs, targets)
        if step % EVERY == 0:
            loss = measured(subject, model, inputs, targets)
            best = min(best, loss)
            if loss <= near_zero:
                return passed(
                    f"loss {began:.3f} to {loss:.3f} in {step} steps on {scored} targets (asked {near_zero:.3f})"
                )
    return failed(
        f"loss {began:.3f} came down to {best:.3f} in {BY_HEART} steps on {scored} targets (asked {near_zero:.3f})"
    )


def stepper(subject: Preflight, model: nn.Module) -> Callable[[Any, Tensor], Any]:
    """The user's own step on this model, or Adam's."""
    own = subject.step
    if own is not None:
        return lambda inputs, targets: own(model, inputs, targets)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
    rates = (RATE * share(step) for step in count())

    def act(inputs: Any, targets: Tensor) -> None:
        optimizer.param_groups[0]["lr"] = next(rates)
        optimizer.zero_grad()
        subject.objective(model, inputs, targets).backward()
        optimizer.step()

    return act


def measured(subject: Preflight, model: nn.Module, inputs: Any, targets: Tensor) -> float:
    """The loss of the rows as the model is now."""
    with torch.no_grad():
        return float(subject.objective(model, inputs, targets))

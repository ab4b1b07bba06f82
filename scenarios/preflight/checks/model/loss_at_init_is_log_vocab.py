"""The loss before the first step.

A fresh model should know nothing, and say so: its loss is that of a guess, ln K. Logits of standard
deviation s that know nothing of the target cost about s^2 / 2 more,

    E[ln sum exp(z) - z_y] = ln K + s^2 / 2 * (1 - 1/K)    (to second order)

so the allowance, one nat, is what logits of standard deviation 1.4 cost. GPT-2's head (std 0.02, width
768, after a layer norm) gives s = 0.55 and 0.15 nats; torch's default for nn.Linear 0.58 and 0.17.
"""

import math

import torch

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.preflight.check import Answer, Stage, check, failed, not_applicable, passed
from trainwreck.scenarios.preflight.subject import Preflight, log_classes

LARGEST_STD = math.sqrt(2)


@check(
    Stage.MODEL,
    rule=f"|loss - ln K| is at most what logits of standard deviation {LARGEST_STD:.1f} cost, one nat",
    source=f"{citations.DEBUGGING}; Karpathy 2019, A Recipe for Training Neural Networks",
)
def loss_at_init_is_log_vocab(subject: Preflight) -> Answer:
    """Compare the first loss with ln K. A `step` of the user's that returns its loss is believed."""
    if subject.trained:
        return not_applicable("the model is past its initialisation")
    if not subject.classified:
        return not_applicable("the targets are no class ids")
    model = subject.copy()
    with torch.no_grad():
        logits = subject.logits(subject.output(model, subject.inputs), subject.targets).float()
    loss = first_loss(subject)
    chance, classes = log_classes(logits.shape[-1]), logits.shape[-1]
    allowed = LARGEST_STD**2 / 2 * (1 - 1 / classes)
    evidence = f"loss {loss:.3f}, ln {classes} = {chance:.3f}: off by {loss - chance:+.3f} (allowed {allowed:.2f})"
    evidence += f"; logits have standard deviation {float(logits.std()):.2g}"
    return passed(evidence) if abs(loss - chance) <= allowed else failed(evidence)


def first_loss(subject: Preflight) -> float:
    """The loss of the first step."""
    if subject.step is not None:
        loss = subject.step(subject.copy(), subject.inputs, subject.targets)
        if loss is not None:
            return float(loss)
    with torch.no_grad():
        return float(subject.objective(subject.copy(), subject.inputs, subject.targets))

"""One pass in full precision and one in the precision of the run.

A half format rounds by up to u = 2^-8 (bfloat16) or 2^-11 (float16). Some sixty roundings along the way
to a logit, random in sign, add up to eight times u, so the loss may be off by 8 u of itself. A gradient
that is off by a third of its length still has a cosine of 0.95 with the right one; rounding takes a few
per cent. In float16 what is under 6e-8 becomes zero, and Adam, which divides by the size, needs it.
"""

import torch
from torch import Tensor, nn

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.preflight.check import Answer, Stage, check, failed, not_applicable, passed
from trainwreck.scenarios.preflight.subject import Preflight, without_dropout

ROUNDINGS = 8.0
LEAST_COSINE = 0.95
MOST_VANISHED = 0.1


@check(
    Stage.MODEL,
    rule=f"loss within {ROUNDINGS:g} roundings, gradients within a cosine of {LEAST_COSINE:g}, all finite, "
    f"under {MOST_VANISHED:.0%} of their elements lost",
    source=f"{citations.INSTABILITY}; Micikevicius et al. 2018",
)
def fp32_versus_mixed(subject: Preflight) -> Answer:
    """Compare loss and gradients of the two, without dropout: another format draws another mask."""
    low = subject.mixed
    if low is torch.float32:
        return not_applicable("the run is in full precision")
    loss, right = subject.gradients(without_dropout(subject.copy(subject.fp32)))
    if not right:
        return not_applicable("no parameter gets a gradient in either")
    other, got = (
        subject.gradients(without_dropout(subject.copy(low)), subject.loss_scale)
        if isinstance(low, nn.Module)
        else in_autocast(subject, low)
    )
    u = torch.finfo(low if isinstance(low, torch.dtype) else torch.bfloat16).eps / 2
    allowed = ROUNDINGS * u * max(1.0, abs(loss))
    a, b = together(right, right), together(right, got)
    if not (torch.isfinite(a).all() and loss == loss):
        return failed(f"not finite in full precision: loss {loss:.3g}")
    if other != other or abs(other) == float("inf") or not torch.isfinite(b).all():
        bad = int((~torch.isfinite(b)).sum())
        return failed(f"loss {other:.3g} and {bad} gradient elements not finite in low precision, {loss:.3f} in fp32")
    if not a.any() and not b.any():
        return not_applicable("the gradient is zero in both")
    cosine = float(torch.nn.functional.cosine_similarity(a, b, dim=0))
    vanished = float(((a != 0) & (b == 0)).sum() / (a != 0).sum().clamp(min=1))
    evidence = (
        f"loss {other:.4f} for {loss:.4f} (allowed {allowed:.3f} apart), cosine of the gradients {cosine:.4f} "
        f"(at least {LEAST_COSINE:g}), {vanished:.1%} of their elements lost (under {MOST_VANISHED:.0%})"
    )
    good = abs(other - loss) <= allowed and cosine >= LEAST_COSINE and vanished < MOST_VANISHED
    return passed(evidence) if good else failed(evidence)


def in_autocast(subject: Preflight, dtype: torch.dtype) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradients of the model under autocast, on the device that it is on."""
    device = next(subject.model.parameters()).device.type
    with torch.autocast(device, dtype):
        return subject.gradients(without_dropout(subject.copy()), subject.loss_scale)


def together(names: dict[str, Tensor], grads: dict[str, Tensor]) -> Tensor:
    """The gradients of these names as one float64 vector, zero where one is missing."""
    return torch.cat([grads.get(name, torch.zeros_like(x)).double().reshape(-1) for name, x in names.items()])

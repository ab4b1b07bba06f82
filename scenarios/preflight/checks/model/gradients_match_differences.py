"""Whether the gradient is the slope of the loss, by finite differences.

A loss with a backward pass of its own may have the right value and a wrong gradient; so may activations that are
computed again with another dropout mask. Every pass has the same random state, so that a right gradient passes with
dropout too. Slopes are taken along random directions, which are as large in each parameter as the parameter is: along
the gradient alone, what is missing of it would not be seen.
"""

import torch
from torch import Tensor, nn

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.preflight.check import Answer, Stage, check, failed, not_applicable, passed
from trainwreck.scenarios.preflight.subject import Preflight, isolated

DIRECTIONS = 8
STEPS = (0.01, 0.001)  # of a parameter's root mean square; the second where the first is too large for a slope
SMALLEST = 0.01  # root mean square that a parameter counts as having at least: biases begin at 0
MOST = 0.1  # of the slopes' length that the gradient may be off


@check(
    Stage.MODEL,
    rule=f"along {DIRECTIONS} random directions the loss changes as its gradient says, within {MOST:.0%}",
    source=f"{citations.LIGER_1298}; {citations.OLMO_CORE_828}",
)
def gradients_match_differences(subject: Preflight) -> Answer:
    """Central differences of the loss against products with its gradient."""
    model = subject.copy(subject.fp32)
    weights = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if any(p.dtype in (torch.float16, torch.bfloat16) for p in weights.values()):
        return not_applicable("weights in a half format are too coarse for differences")
    if subject.routed:
        return not_applicable("the loss has steps where a token goes to another expert")
    with isolated():
        loss, grads = subject.gradients(model)
    if loss != loss or abs(loss) == float("inf"):
        return failed(f"the loss is {loss}")
    floor = 1e-6 * max(1.0, abs(loss))  # rounding of a loss in float32, a few times over
    off = float("inf")
    for step in STEPS:
        draws, slopes, products = torch.Generator().manual_seed(0), [], []
        for _ in range(DIRECTIONS):
            way = {name: direction(p.detach(), draws) for name, p in weights.items()}
            ahead, back = (moved(subject, model, weights, way, sign * step) for sign in (1, -1))
            slopes.append((ahead - back) / (2 * step))
            products.append(sum(float((grads[k].double() * x.double()).sum()) for k, x in way.items() if k in grads))
        a, b = torch.tensor(slopes, dtype=torch.float64), torch.tensor(products, dtype=torch.float64)
        off = min(off, float((a - b).norm()) / max(float(a.norm()), floor / step * DIRECTIONS**0.5))
        if off <= MOST:
            break
    evidence = f"the gradient is off the slopes of the loss by {off:.1%} (at most {MOST:.0%})"
    return passed(evidence) if off <= MOST else failed(evidence)


def direction(weight: Tensor, draws: torch.Generator) -> Tensor:
    """A random direction of a parameter."""
    size = weight.float().square().mean().sqrt().clamp(min=SMALLEST)
    return size.to(weight.dtype) * torch.randn(weight.shape, generator=draws).to(weight)


@torch.no_grad()
def moved(
    subject: Preflight, model: nn.Module, weights: dict[str, nn.Parameter], way: dict[str, Tensor], step: float
) -> float:
    """The loss with the weights moved along the way; they are put back."""
    kept = {name: p.detach().clone() for name, p in weights.items()}
    for name, p in weights.items():
        p.add_(way[name], alpha=step)
    with isolated():
        loss = float(subject.objective(model, subject.inputs, subject.targets))
    for name, p in weights.items():
        p.copy_(kept[name])
    return loss

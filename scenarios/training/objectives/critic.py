"""Advantages of each token of an answer by a critic, and the critic's own loss: those of PPO.

    delta_t = r_t + V_{t+1} - V_t    V is 0 past the end of an answer, r is 0 but at its last token
    A_t = delta_t + lambda * A_{t+1}    up to the end of the answer; return_t = A_t + V_t
    value loss = max((V - return)^2, (V_old + clip(V - V_old, -c, c) - return)^2) / 2

Generalised advantage estimation at discount 1 (Schulman et al. 2016, equation 16), and the clipped value loss of the
authors' code for Schulman et al. 2017. V is read off the final state of the token before: what is known when a token is
drawn.

Shapes: N runs, B rows, T positions, M = B T tokens.
"""

import torch
from torch import Tensor

from trainwreck.models.loss import weighted_mean

EPS = 1e-8  # of the variance of advantages


def estimates(
    rewards_NB: Tensor, values_NM: Tensor, scored_NM: Tensor, decay_N: Tensor, context: int
) -> tuple[Tensor, Tensor]:
    """Advantages and returns of the tokens of answers, each [N, M], 0 elsewhere. scored: bool; decay: lambda."""
    n, b = rewards_NB.shape
    scored = scored_NM.view(n, b, context)
    goes_on = torch.zeros_like(scored)
    goes_on[..., :-1] = scored[..., 1:]
    values = values_NM.view(n, b, context) * scored
    decay, after, later = decay_N.unsqueeze(1), torch.zeros_like(rewards_NB), torch.zeros_like(rewards_NB)
    advantages = []
    for place in reversed(range(context)):
        here, last = scored[..., place], ~goes_on[..., place]
        delta = torch.where(last, rewards_NB, after) - values[..., place]
        later = torch.where(here, delta + decay * later, 0.0)
        after = values[..., place]
        advantages.append(later)
    found = torch.stack(advantages[::-1], 2)
    return found.flatten(1), ((found + values) * scored).flatten(1)


def whitened(advantages_NM: Tensor, weights_NM: Tensor) -> Tensor:
    """Less their mean, over their standard deviation, over all tokens of a run's answers, [N, M]."""
    count = weights_NM.sum(1)
    apart = advantages_NM - weighted_mean(advantages_NM, weights_NM).unsqueeze(1)
    variance = (apart.square() * weights_NM).sum(1) / (count - 1).clamp(min=1)
    return apart * torch.rsqrt(variance + EPS).unsqueeze(1)


def errors(values_NM: Tensor, old_NM: Tensor, returns_NM: Tensor, clip_N: Tensor) -> Tensor:
    """The value loss of each token, [N, M]. old: values when answers were drawn."""
    clip = clip_N.unsqueeze(1)
    near = old_NM + torch.clamp(values_NM - old_NM, -clip, clip)
    return 0.5 * torch.maximum((values_NM - returns_NM).square(), (near - returns_NM).square())


def explained_variance(values_NM: Tensor, returns_NM: Tensor, weights_NM: Tensor) -> Tensor:
    """1 - Var(return - V) / Var(return) over the tokens of answers, [N]; NaN where returns are all the same."""

    def variance(x: Tensor) -> Tensor:
        return weighted_mean((x - weighted_mean(x, weights_NM).unsqueeze(1)).square(), weights_NM)

    total = variance(returns_NM)
    return torch.where(total > 0, 1 - variance(returns_NM - values_NM) / total, torch.nan)

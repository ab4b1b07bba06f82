"""Which experts a token goes to, how many each of them takes, and the terms that routers add to the objective.

Shapes: N runs, M tokens, E experts, K experts a token, C tokens that an expert takes at most.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from trainwreck.models.config import ModelConfig

MULTIPLE = 16  # of C, so that a product has the same bits alone and in a bundle


@dataclass(frozen=True)
class Routes:
    """Where the tokens of a batch go.

    logits_NME: of the router; probability_NME: their softmax. gate_NMK: the factor on what each of a token's experts
    puts out: its probability, over the sum of theirs where there are several (GShard, Lepikhin et al. 2020). slot_NMK:
    int64, expert * C + place among the tokens that it takes; E * C where it takes this one no more. share_NE: of all
    choices, those that fell on an expert, taken or not. capacity: C.
    """

    logits_NME: Tensor
    probability_NME: Tensor
    gate_NMK: Tensor
    slot_NMK: Tensor
    share_NE: Tensor
    capacity: int

    @property
    def dropped(self) -> Tensor:
        """Choices that found their expert full, bool [N, M, K]."""
        return self.slot_NMK == self.share_NE.shape[1] * self.capacity


def places(config: ModelConfig, tokens: int) -> int:
    """C: the tokens that an expert takes of so many, `config.capacity` times an even share, rounded up to 16s."""
    even = config.capacity * tokens * config.experts_per_token / config.experts
    return MULTIPLE * max(1, math.ceil(even / MULTIPLE))


def route(logits_NME: Tensor, config: ModelConfig) -> Routes:
    """Each token to the experts with the largest probabilities, in the order of the tokens until an expert is full.

    The first choices of all tokens come before any second one, as in GShard.
    """
    n, m, e = logits_NME.shape
    probability = torch.softmax(logits_NME, -1)
    gate, chosen = probability.topk(config.experts_per_token, -1)
    if config.experts_per_token > 1:
        gate = gate / gate.sum(-1, keepdim=True)
    capacity = places(config, m)
    order = chosen.transpose(1, 2).reshape(n, -1)  # [N, K * M]
    on = (order.unsqueeze(2) == torch.arange(e, device=order.device)).long()  # `one_hot` reads values on the host
    place = (on.cumsum(1) * on).sum(2) - 1
    slot = torch.where(place < capacity, order * capacity + place, e * capacity)
    share = on.sum(1).to(logits_NME.dtype) / order.shape[1]
    return Routes(logits_NME, probability, gate, slot.view(n, -1, m).transpose(1, 2), share, capacity)


def balance_loss(routes: Routes, blind_N: Tensor | None = None) -> Tensor:
    """E * sum_e share_e * mean_m probability_me, [N]: 1 at even loads, up to E (Switch, Fedus et al. 2021).

    blind_N: bool, runs whose mean is over the experts of each token, which is 1 / E whatever a router does.
    """
    e = routes.share_NE.shape[1]
    mean_NE = routes.probability_NME.mean(1)
    if blind_N is not None:
        over_experts = routes.probability_NME.mean(2).mean(1, keepdim=True)
        mean_NE = torch.where(blind_N.unsqueeze(1), over_experts, mean_NE)
    return e * (routes.share_NE * mean_NE).sum(1)


def router_z_loss(routes: Routes) -> Tensor:
    """Mean over the tokens of (ln sum_e exp logit_e) ** 2, [N] (ST-MoE, Zoph et al. 2022)."""
    return torch.logsumexp(routes.logits_NME, -1).square().mean(1)


@dataclass
class RouterLosses:
    """What the routers of one forward pass add to the objective, one entry a layer, each [N]. blind_N: as above."""

    blind_N: Tensor
    balance: list[Tensor] = field(default_factory=list)
    z: list[Tensor] = field(default_factory=list)

    def see(self, routes: Routes) -> Tensor:
        """Take in a layer; its balance loss."""
        self.balance.append(balance_loss(routes, self.blind_N))
        self.z.append(router_z_loss(routes))
        return self.balance[-1]

    def added(self, balance_N: Tensor, z_N: Tensor) -> Tensor:
        """The sum over the layers with these weights, [N]."""
        return balance_N * torch.stack(self.balance).sum(0) + z_N * torch.stack(self.z).sum(0)

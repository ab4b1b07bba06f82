"""Tokens to their experts and back.

Shapes: N runs, M tokens, D width, E experts, K experts a token, C tokens of an expert, F units of an expert.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from trainwreck.models.config import Format
from trainwreck.models.experts.routing import Routes
from trainwreck.models.precision import linear

Layer = tuple[Tensor, Tensor | None]  # weight [N, E, I, O] and bias [N, E, O] of all experts


def dispatch(x_NMD: Tensor, routes: Routes) -> tuple[Tensor, Tensor]:
    """What each expert takes, [N, E, C, D], zeros where it takes less; and which places are taken, bool [N, E, C]."""
    n, m, d = x_NMD.shape
    e, c, k = routes.share_NE.shape[1], routes.capacity, routes.slot_NMK.shape[2]
    token = torch.arange(m, device=x_NMD.device).repeat_interleave(k).expand(n, -1)
    origin = torch.full((n, e * c + 1), m, device=x_NMD.device)  # m is the row of zeros
    origin = origin.scatter(1, routes.slot_NMK.flatten(1), token)[:, :-1]  # the last one has what was dropped
    padded = torch.cat((x_NMD, x_NMD.new_zeros(n, 1, d)), 1)
    return rows(padded, origin).view(n, e, c, d), (origin < m).view(n, e, c)


def combine(out_NECD: Tensor, routes: Routes) -> Tensor:
    """The sum of what a token's experts put out, by their gates, [N, M, D]; nothing of one that dropped it."""
    n, _, _, d = out_NECD.shape
    padded = torch.cat((out_NECD.flatten(1, 2), out_NECD.new_zeros(n, 1, d)), 1)
    back = rows(padded, routes.slot_NMK.flatten(1)).view(*routes.slot_NMK.shape, d)
    return (back * routes.gate_NMK.unsqueeze(3)).sum(2)


def expert_product(x_NECI: Tensor, layer: Layer, format: Format) -> Tensor:
    """A matrix of each expert, [N, E, C, O]."""
    weight, bias = layer
    bias = None if bias is None else bias.flatten(0, 1)
    out = linear(x_NECI.flatten(0, 1), weight.flatten(0, 1), bias, format)
    return out.view(*x_NECI.shape[:3], -1)


def mixture(
    x_NMD: Tensor,
    routes: Routes,
    first: Layer,
    last: Layer,
    activate: Callable[[Tensor], tuple[Tensor, Tensor]],
    format: Format = Format.FP32,
) -> tuple[Tensor, Tensor]:
    """What the experts put out, [N, M, D], and the units of all of them, [N, C, E * F].

    activate: a first product to hidden units, and to what is recorded of them. format: of the products. Units of places
    that no token took are -inf in the record.
    """
    taken_NECD, there_NEC = dispatch(x_NMD, routes)
    hidden, fired = activate(expert_product(taken_NECD, first, format))
    seen = torch.where(there_NEC.unsqueeze(3), fired.detach(), -torch.inf)
    return combine(expert_product(hidden, last, format), routes), seen.transpose(1, 2).flatten(2)


def rows(x_NSD: Tensor, index_NJ: Tensor) -> Tensor:
    """Rows of each run's own table, [N, J, D]."""
    return x_NSD.gather(1, index_NJ.unsqueeze(2).expand(-1, -1, x_NSD.shape[2]))

"""Gradients of N runs, exchanged between the ranks and averaged.

Gathered and added up in the order of the ranks, not by an all-reduce, whose order of summation
depends on where in the buffer a number lies: so all ranks get the same bits, and a run gets the same
in a bundle as alone.
"""

import torch
from torch import Tensor

from trainwreck.models.parameters import Layout
from trainwreck.scenarios.spec.exchange import Exchange
from trainwreck.scenarios.training.distributed.group import Group


class Averaging:
    """What a rank makes of the ranks' gradients.

    plan: of the parameters, whose names say which are unshared. held: of each rank what came too late for the last
    step, [N, W, P + 1]; None where nothing comes late.
    """

    def __init__(
        self, group: Group, exchanges: list[Exchange], plan: Layout, like: Tensor, held: Tensor | None
    ) -> None:
        self.group = group

        def column(values: list[bool]) -> Tensor:
            return torch.tensor(values, device=like.device).unsqueeze(1)

        mine = [(e.hears[group.rank], e.late[group.rank]) for e in exchanges]
        self.hears = [column([hears[q] for hears, _ in mine]) for q in range(group.ranks)]
        self.late = [column([late[q] for _, late in mine]) for q in range(group.ranks)]
        self.alone = column([e.alone for e in exchanges])
        self.clips_alone = column([e.clips_alone for e in exchanges]).squeeze(1)
        self.unshared = _unshared(exchanges, plan, like) if any(e.unshared for e in exchanges) else None
        counts = [float(sum(hears)) if e.summed else 1.0 for e, (hears, _) in zip(exchanges, mine, strict=True)]
        self.factor = torch.tensor(counts, dtype=like.dtype, device=like.device).unsqueeze(1)
        self.held = None if held is None else list(held.unbind(1))

    def average(self, grads_NP: Tensor, tokens_N: Tensor) -> tuple[Tensor, Tensor]:
        """Mean of the gradients that this rank receives, weighted by their tokens, and its own one's norm, [N].

        Nothing received is a gradient of zero; of a parameter that is not shared it is the rank's own.
        """
        norm = torch.linalg.vector_norm(grads_NP, dim=1)
        tokens = tokens_N.unsqueeze(1)
        own = torch.cat((grads_NP * tokens, tokens), 1)
        left_out = self.alone & ~torch.isfinite(norm).unsqueeze(1)
        arrived = self.group.gather(torch.where(left_out, 0.0, own))
        total = torch.zeros_like(own)
        for sender, fresh in enumerate(arrived):
            used = fresh if self.held is None else torch.where(self.late[sender], self.held[sender], fresh)
            total += torch.where(self.hears[sender], used, 0.0)
        if self.held is not None:
            self.held = arrived
        received = total[:, -1:].clamp(min=torch.finfo(total.dtype).tiny)
        mean = total[:, :-1] / received * self.factor
        return mean if self.unshared is None else torch.where(self.unshared, grads_NP, mean), norm

    def clipped_by(self, average_N: Tensor, own_norm_N: Tensor) -> Tensor:
        """The norm that the clip goes by: the average's, or that of the rank's own gradient."""
        return torch.where(self.clips_alone, own_norm_N, average_N)

    def overflow(self, average_N: Tensor, own_norm_N: Tensor) -> Tensor:
        """Which runs skip: where the average overflowed or, for a rank that decides alone, its own gradient."""
        return torch.where(self.alone.squeeze(1), ~torch.isfinite(own_norm_N), average_N)


def _unshared(exchanges: list[Exchange], plan: Layout, like: Tensor) -> Tensor:
    """True at the parameters of which each rank keeps its own gradient, [N, P]."""
    found = torch.zeros((len(exchanges), plan.size), dtype=torch.bool)
    for row, exchange in zip(found, exchanges, strict=True):
        for slot in plan.slots:
            row[slot.start : slot.stop] = slot.name.endswith(exchange.unshared)
    return found.to(like.device)

"""One rank's view of the processes that train a run together."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

PREFIX = "rank{}/"  # of the entries of a state that another rank than the first has of its own


class PeerLostError(RuntimeError):
    """Another rank is gone, or has not come for too long."""


@dataclass(frozen=True)
class Group:
    """This rank among `ranks` processes. Every rank calls every method, in the same order.

    The entries of a state are exchanged by name: a state that was loaded has them in another order on every rank.
    """

    rank: int
    ranks: int

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensor of each rank, in their order. Same shape on all."""
        parts = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(self.ranks)]
        try:
            dist.all_gather(parts, tensor.contiguous())
        except RuntimeError as error:
            raise PeerLostError(str(error)) from None
        return parts

    def gather_array(self, array: np.ndarray, device: torch.device) -> np.ndarray:
        """The same of arrays, with the ranks as a last axis."""
        parts = self.gather(torch.from_numpy(np.ascontiguousarray(array)).to(device))
        return np.stack([part.cpu().numpy() for part in parts], -1)

    def first(self, state: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
        """The first rank's state, on every rank: what a checkpoint holds that all of them load."""
        return {name: self._gathered(state[name], device)[0] for name in sorted(state)}

    def whole(self, state: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
        """The states of all ranks in one: the first's by their names, the others' with a prefix."""
        parts = {name: self._gathered(state[name], device) for name in sorted(state)}
        others = {PREFIX.format(r) + name: p[r] for r in range(1, self.ranks) for name, p in parts.items()}
        return {name: p[0] for name, p in parts.items()} | others

    def own(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """This rank's part of such a state; the first's, where there is nothing else."""
        names = [name for name in state if "/" not in name]
        return {name: state.get(PREFIX.format(self.rank) + name, state[name]) for name in names}

    def _gathered(self, value: Tensor, device: torch.device) -> list[Tensor]:
        return [part.to(value.device) for part in self.gather(value.to(device))]

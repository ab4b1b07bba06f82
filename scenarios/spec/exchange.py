r"""The rows that each rank of a run trains on and what the ranks send each other, as data.

    rows 0::2 -> rank 0: gradient g_0 over n_0 tokens --\ /--> rank 0: (n_0 g_0 + n_1 g_1) / (n_0 + n_1)
                                                         X
    rows 1::2 -> rank 1: gradient g_1 over n_1 tokens --/ \--> rank 1: the same, bitwise

A process fault is another such picture: a rank that trains on another's rows, an arrow that is missing or a
step late, a sum in place of the mean, an overflow that the others are not notified of, parameters whose
gradients are left out of the exchange, a clip by the norm of the rank's own gradient.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trainwreck.scenarios.data.batch import Batch

Matrix = tuple[tuple[bool, ...], ...]  # [receiver][sender]


@dataclass(frozen=True)
class Exchange:
    """Who gets which rows and whose gradient, for W ranks.

    shards: the share of the batch that each rank trains on, 0 to W - 1. hears: whose gradients a rank
    averages. late: of those, whose arrive a step late. summed: the average is not divided by how many
    it is of. alone: a rank whose own gradient overflows skips its step, leaves its gradient out of the
    others' average and does not notify them; else all check the average, and so all skip. unshared: endings of
    the names of parameters of which each rank keeps its own gradient. clips_alone: a rank clips the average by
    the norm of its own gradient; else all clip it by its norm.
    """

    shards: tuple[int, ...]
    hears: Matrix
    late: Matrix
    summed: bool = False
    alone: bool = False
    unshared: tuple[str, ...] = ()
    clips_alone: bool = False

    @classmethod
    def healthy(cls, ranks: int) -> "Exchange":
        """Every rank its own rows, and everyone's gradient in time."""
        return cls(tuple(range(ranks)), square(ranks, lambda r, q: True), square(ranks, lambda r, q: False))

    @property
    def ranks(self) -> int:
        """W."""
        return len(self.shards)

    @property
    def is_late(self) -> bool:
        """Whether any gradient comes late, so that some must be kept for a step."""
        return any(map(any, self.late))

    def rows(self, batch: Batch, rank: int) -> Batch:
        """The rows of a batch, arrays [S, B, T], that a rank trains on."""
        mine = slice(self.shards[rank], None, self.ranks)
        return Batch(batch.inputs[:, mine], batch.targets[:, mine], batch.weights[:, mine], batch.documents[:, mine])

    def every_row(self, batch: Batch) -> Batch:
        """The rows that all ranks together train on, rank by rank."""
        if self.shards == (0,):
            return batch
        parts = [self.rows(batch, rank) for rank in range(self.ranks)]
        return Batch(*(np.concatenate([getattr(p, k) for p in parts], 1) for k in vars(batch)))

    def tokens(self, batch: Batch) -> np.ndarray:
        """Scored tokens of each rank, [S, W]."""
        return np.stack([self.rows(batch, r).weights.sum((1, 2), dtype=np.float64) for r in range(self.ranks)], 1)


def square(ranks: int, entry: Callable[[int, int], bool]) -> Matrix:
    """A matrix of entry(receiver, sender)."""
    return tuple(tuple(entry(r, q) for q in range(ranks)) for r in range(ranks))

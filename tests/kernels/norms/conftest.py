"""Statistics of segments from the definition, in float64."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

Segments = tuple[tuple[int, int], ...]


def _cut(widths: list[int]) -> Segments:
    """Neighbouring ranges of the given widths."""
    ends = [0]
    for width in widths:
        ends.append(ends[-1] + width)
    return tuple(pairwise(ends))


def _looped(flat: Tensor, segments: Segments) -> dict[str, Tensor]:
    """Number by number, in Python's own float64."""
    rows = flat.double().tolist()
    norm = [[math.sqrt(math.fsum(x * x for x in row[a:b])) for a, b in segments] for row in rows]
    largest = [[max(abs(x) for x in row[a:b]) for a, b in segments] for row in rows]
    return {"norm": torch.tensor(norm, dtype=torch.float64), "largest": torch.tensor(largest, dtype=torch.float64)}


@pytest.fixture(scope="session")
def cut() -> Callable[[list[int]], Segments]:
    return _cut


@pytest.fixture(scope="session")
def looped() -> Callable[[Tensor, Segments], dict[str, Tensor]]:
    return _looped

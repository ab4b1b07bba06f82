"""Muon: the update of a matrix is its momentum made orthogonal, so that no direction moves more than another.

    momentum U S V'  ->  U S' V', singular values S' near 1

Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"; the scale by shape is that of Liu et al.
2025, "Muon is scalable for LLM training".
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from trainwreck.models.parameters import Layout

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of Jordan et al.: steep at 0, and within 0.7 to 1.2 after five rounds
ROUNDS = 5
UPDATE_RMS = 0.2  # about what AdamW's updates have, so that both take one learning rate
SMALLEST = 1e-7


class Matrix(NamedTuple):
    """A weight of the flat buffer that Muon updates. parts: maps side by side in its columns, as q, k and v are."""

    start: int
    stop: int
    rows: int
    columns: int  # of one part
    parts: int


def matrices(plan: Layout) -> tuple[Matrix, ...]:
    """The matrices between embedding and head; those two, biases and gains are left to AdamW."""
    found = []
    for slot in plan.slots:
        if len(slot.shape) == 2 and slot.decay and not slot.name.startswith("head."):
            rows, columns = slot.shape
            parts = 3 if slot.name.endswith("qkv.weight") else 1
            found.append(Matrix(slot.start, slot.stop, rows, columns // parts, parts))
    return tuple(found)


def orthogonal(x: Tensor) -> Tensor:
    """A matrix of the same singular vectors and of singular values near 1, [..., R, C]; 0 where x is 0.

    Five rounds of a quintic Newton-Schulz iteration.
    """
    a, b, c = COEFFICIENTS
    tall = x.shape[-2] > x.shape[-1]
    x = x.transpose(-1, -2) if tall else x
    x = x / (torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True) + SMALLEST)
    for _ in range(ROUNDS):
        square = x @ x.transpose(-1, -2)
        x = a * x + (b * square + c * square @ square) @ x
    return x.transpose(-1, -2) if tall else x


def orthogonal_updates(momentum_NP: Tensor, matrix: Matrix) -> Tensor:
    """The direction in which Muon moves a matrix, [N, rows * columns * parts], of root mean square `UPDATE_RMS`."""
    n = len(momentum_NP)
    part = momentum_NP[:, matrix.start : matrix.stop].view(n, matrix.rows, matrix.parts, matrix.columns)
    # Of a run alone the reshaped one is a view, whose norm would be summed in another order than that of a copy.
    stacked = part.transpose(1, 2).reshape(n * matrix.parts, matrix.rows, matrix.columns).contiguous()
    made = orthogonal(stacked)
    scaled = made * (UPDATE_RMS * math.sqrt(max(matrix.rows, matrix.columns)))
    return scaled.view(n, matrix.parts, matrix.rows, matrix.columns).transpose(1, 2).flatten(1)

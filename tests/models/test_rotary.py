"""Rotary tables whose angles were formed in a format of few bits."""

import math

import pytest
import torch

from trainwreck.models.rotary import rotary_table

WIDTH, BASE = 16, 10000.0


def rounded(x: float) -> float:
    """x to 8 significant bits, half to even, as bfloat16 has them."""
    if not x:
        return 0.0
    unit = 2.0 ** (math.frexp(x)[1] - 8)
    return round(x / unit) * unit


@pytest.mark.parametrize("position", [0, 1, 3, 200, 256, 257, 383, 511, 1001])
def test_angles_in_bfloat16_are_the_product_of_rounded_factors_rounded(position: int) -> None:
    table = rotary_table(position + 1, WIDTH, BASE, torch.float64, angles=torch.bfloat16)[-1]
    for j, turn in enumerate(table.tolist()):
        angle = rounded(rounded(position) * rounded(BASE ** (-2 * j / WIDTH)))
        assert abs(turn - complex(math.cos(angle), math.sin(angle))) < 1e-12


def test_neighbours_share_a_position_from_256_on_and_not_before() -> None:
    table = rotary_table(384, WIDTH, BASE, angles=torch.bfloat16)
    same = (table[1:] == table[:-1]).all(1)
    assert not same[:256].any()
    assert (same[256:-1:2] | same[257::2]).all()  # each odd position is that of one of its neighbours


def test_without_a_format_the_angles_are_exact() -> None:
    assert torch.equal(rotary_table(384, WIDTH, BASE), rotary_table(384, WIDTH, BASE, angles=torch.float64))

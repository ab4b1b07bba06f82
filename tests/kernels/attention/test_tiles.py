"""Tile sizes: what the kernels take for granted of them."""

import pytest
import torch

from trainwreck.kernels.attention.tiles import SMALLEST, SMALLEST_HALF, WIDEST, choose, padded_width


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_every_tile_is_one_that_the_kernels_can_take(dtype: torch.dtype, halves: bool) -> None:
    least = SMALLEST_HALF if halves or dtype != torch.float32 else SMALLEST
    for width in range(1, WIDEST + 1):
        for length in (1, 2, 15, 16, 17, 63, 64, 100, 128, 129, 1024, 100_000):
            for tile in choose(width, dtype, length, halves):
                assert tile.rows % tile.step == 0
                assert least <= tile.step <= tile.rows
                assert tile.rows & (tile.rows - 1) == tile.step & (tile.step - 1) == 0
                assert tile.rows <= max(least, 2 * length)


@pytest.mark.parametrize(("width", "padded"), [(1, 16), (16, 16), (17, 32), (48, 64), (64, 64), (100, 128), (128, 128)])
def test_a_head_is_padded_to_the_next_power_of_two(width: int, padded: int) -> None:
    assert padded_width(width) == padded

"""Tile sizes of the Triton kernels: one rule, from head width, dtype and length, for an H200.

Why these: a product of half formats runs on the tensor cores in units of 64 rows for each group of
four warps, and its sums stay in registers, 255 a thread: these are the largest that don't spill, with
statistics on. float32 products that are exact run on the ordinary cores, where large tiles spill at
once. No autotuning, so that a run's numbers don't hang on a measurement.
"""

from typing import NamedTuple

import torch

SMALLEST = 16  # what tl.dot takes along any axis
# Of half formats under dropout, where Triton gives a thread of the tensor cores four neighbours of a row: from four
# threads in two parts that is 32, and of fewer the product is wrong (Triton 3.6 on an H200, measured).
SMALLEST_HALF = 32
WIDEST = 128


class Tile(NamedTuple):
    """`rows` is what a program owns, `step` what it takes at a time; rows is a multiple of step.

    registers: at most so many a thread, None for as many as the compiler likes.
    """

    rows: int
    step: int
    warps: int
    stages: int
    registers: int | None = None


class Tiles(NamedTuple):
    """Forward: queries by keys. Backward: keys by queries for dK and dV, queries by keys for dQ."""

    forward: Tile
    backward: Tile


FLOAT32 = {  # by padded width; of 16 and 32 the fastest of a sweep on an H200 (results/gpu)
    16: Tiles(Tile(32, 16, 1, 1), Tile(32, 16, 1, 1)),
    32: Tiles(Tile(32, 32, 4, 1), Tile(32, 32, 4, 1)),
    64: Tiles(Tile(32, 32, 4, 2), Tile(32, 16, 4, 1)),
    128: Tiles(Tile(32, 16, 8, 1), Tile(16, 16, 8, 1)),
}


def padded_width(width: int) -> int:
    """The power of two that a head is padded to in registers."""
    return max(SMALLEST, power_of_two(width))


def power_of_two(n: int) -> int:
    """The least power of two that is n or more."""
    return 1 << (n - 1).bit_length()


def choose(width: int, dtype: torch.dtype, length: int, halves: bool = False) -> Tiles:
    """Tiles for a head width, a dtype and a length; short rows have smaller ones.

    halves: some products are of half formats whatever the dtype is.
    """
    wide = padded_width(width) > 64
    if dtype == torch.float32 and halves:
        forward, backward = (
            (Tile(32, 32, 8, 1), Tile(32, 32, 8, 1)) if wide else (Tile(32, 32, 4, 2), Tile(32, 32, 4, 1))
        )
    elif dtype == torch.float32:
        forward, backward = FLOAT32[padded_width(width)]
    elif wide:
        forward, backward = Tile(128, 64, 8, 2), Tile(64, 64, 8, 2)
    else:
        # 168 registers: room for three programs on a multiprocessor, and still hardly a spill.
        forward, backward = Tile(64, 64, 4, 3, 168), Tile(64, 64, 4, 2)
    least = SMALLEST_HALF if halves or dtype != torch.float32 else SMALLEST
    longest = max(least, power_of_two(length))
    return Tiles(_fit(forward, longest), _fit(backward, longest))


def _fit(tile: Tile, longest: int) -> Tile:
    rows = min(tile.rows, longest)
    warps = tile.warps if rows == tile.rows else min(tile.warps, 4)
    return tile._replace(rows=rows, step=min(tile.step, rows), warps=warps)

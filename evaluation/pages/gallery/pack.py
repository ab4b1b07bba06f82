"""Telemetry small enough for a page: rounded, as differences, deflated. `unpack.js` is the way back.

A number keeps its sign, the exponent of a float32 and so many bits of its mantissa, rounded to nearest: 10 bits are a
relative error of at most 2^-11, 0.05 %, whatever the range; NaN and the infinities stay what they are. Read as an
integer of that order, it is written as the difference from the step before; where that is shorter, less what the twin
differs by, since both saw the same batches. Up to the onset a run is bitwise equal to its twin, and costs nothing.
The differences, folded to be positive, lie in three planes of bytes, low to high, so that zlib finds their zeros.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.pages.templates import deflated

EXPONENTS = 0xFF  # the largest exponent of a float32: infinities
PLANES = 3
FINE, COARSE = 10, 5  # bits of the mantissa, of what is drawn as a line and as a colour


@dataclass(frozen=True)
class Column:
    """A signal of one run to pack. values: [K, S] float32. gap: [S] bool, where there is no value. bits: of mantissa.

    every: steps between two of the S, which begin at 0.
    """

    name: str
    values: np.ndarray
    gap: np.ndarray
    bits: int = FINE
    every: int = 1


def codes(column: Column) -> np.ndarray:
    """The numbers of a column as integers in their order, [K, S] int64; NaN above all, a gap one above it."""
    bits = np.ascontiguousarray(column.values, dtype=np.float32).view(np.uint32).astype(np.int64)
    size, shift = bits & 0x7FFFFFFF, 23 - column.bits
    infinite = EXPONENTS << column.bits
    rounded = (size + (1 << (shift - 1))) >> shift
    rounded = np.where(size < EXPONENTS << 23, np.minimum(rounded, infinite - 1), rounded)  # no number becomes infinite
    found = np.where(bits >> 31 == 1, -rounded, rounded)
    found = np.where(size > EXPONENTS << 23, infinite + 1, found)
    return np.where(column.gap, infinite + 2, found)


def thinned(column: Column, every: int, positive: bool) -> Column:
    """One value of each `every` steps: that which differs most from the one kept before, so that extremes stay.

    positive: differences are ratios. What is not finite differs most.
    """
    rows, steps = column.values.shape
    if every == 1 or not steps:
        return column
    blocks = -(-steps // every)
    padded = np.pad(column.values, ((0, 0), (0, blocks * every - steps)), mode="edge").reshape(rows, blocks, every)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        measure = np.log(padded.astype(np.float64)) if positive else padded.astype(np.float64)
    kept = np.empty((rows, blocks), np.float32)
    kept[:, 0], last = padded[:, 0, 0], measure[:, 0, 0]
    each = np.arange(rows)
    for block in range(1, blocks):
        with np.errstate(invalid="ignore"):
            apart = np.abs(measure[:, block] - last[:, None])
        apart = np.where(np.isfinite(padded[:, block]), np.nan_to_num(apart, nan=0.0), np.inf)
        chosen = apart.argmax(1)
        kept[:, block] = padded[each, block, chosen]
        last = measure[each, block, chosen]
    return Column(column.name, kept, np.zeros(blocks, bool), column.bits, every)


def pack(columns: Sequence[Column], twin: Mapping[str, np.ndarray]) -> str:
    """Columns of one run as base64 of deflated bytes: the length of a header, the header (JSON), then the planes.

    twin: name to `codes` of the run that this one is compared with; empty for none.
    """
    parts, facts = [], []
    for column in columns:
        own = codes(column)
        folded, against = _shorter(own, twin.get(column.name))
        parts += [(folded >> (8 * plane)).astype(np.uint8).tobytes() for plane in range(PLANES)]
        rows, steps = own.shape
        facts.append(
            {"name": column.name, "rows": rows, "steps": steps, "bits": column.bits, "every": column.every}
            | {"twin": against}
        )
    header = json.dumps(facts).encode()
    return deflated(len(header).to_bytes(4, "little") + header + b"".join(parts))


def _shorter(own: np.ndarray, other: np.ndarray | None) -> tuple[np.ndarray, bool]:
    """Differences over the steps, folded, and whether the twin's were taken off. [K, S]"""
    plain = _folded(np.diff(own, axis=1, prepend=0))
    if other is None or other.shape[0] != own.shape[0]:
        return plain, False
    shared = min(own.shape[1], other.shape[1])
    less = np.diff(own, axis=1, prepend=0)
    less[:, :shared] -= np.diff(other, axis=1, prepend=0)[:, :shared]
    folded = _folded(less)
    cost = [np.log2(1.0 + values).sum() for values in (plain, folded)]
    return (folded, True) if cost[1] < cost[0] else (plain, False)


def _folded(differences: np.ndarray) -> np.ndarray:
    """0, -1, 1, -2, 2 ... as 0, 1, 2, 3, 4 ..."""
    return np.where(differences < 0, -2 * differences - 1, 2 * differences)

"""Rows in batches, for a process that makes numbers only of the signals that it reads.

A batch has the steps, `columns` (signals in their order, to the length of their list, null for a single number),
`absent` (signals to the places of rows without a value) and `numbers`: base64 of float64, little end first, those of
one row after those of the one before. A signal that is no column has no value in any row.
"""

import binascii
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import Any

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.replay.profiles import observe
from trainwreck.evaluation.replay.rows import NAMES, Block, LoggedRow, logged_at, rows

BLOCK = 1024  # rows that are put together at a time
Widths = Mapping[str, int | None]


def batches(trace: Trace, profile: str, k: int, size: int) -> Iterator[dict[str, Any]]:
    """Batches of the rows that a profile shows, `size` rows at a time; the rows of `observe`, bitwise."""
    widths = {
        name: None if values.ndim == 1 else values.shape[1]
        for name in NAMES
        if (values := trace.signals.get(name)) is not None
    }
    if profile == "full":  # no Python number in between
        for start in range(0, len(trace), BLOCK - BLOCK % size):
            yield from _of_trace(trace, widths, range(start, min(start + BLOCK - BLOCK % size, len(trace))), size)
        return
    shown = observe(rows(trace), profile, k=k, run_id=trace.run_id)
    while batch := list(islice(shown, size)):
        yield _of_rows(batch, widths)


def unpacked(batch: Mapping[str, Any]) -> Iterator[LoggedRow]:
    """The rows of a batch. Raises ValueError for one that is damaged."""
    steps, widths, absent = batch["steps"], batch["columns"], batch["absent"]
    table = np.frombuffer(binascii.a2b_base64(batch["numbers"]), "<f8").reshape(len(steps), -1)
    first = dict(zip(widths, accumulate(map(_size, widths.values()), initial=0), strict=False))

    def values(name: str) -> list[Any]:
        if name not in widths:
            return [None] * len(steps)
        at, width = first[name], widths[name]
        found: list[Any] = (table[:, at] if width is None else table[:, at : at + width]).tolist()
        for place in absent.get(name, ()):
            found[place] = None
        return found

    block = Block(values)
    return (LoggedRow(step, block, at) for at, step in enumerate(steps))


def _of_trace(trace: Trace, widths: Widths, part: range, size: int) -> Iterator[dict[str, Any]]:
    where = slice(part.start, part.stop)
    known = {name: mask[where] for name in widths if (mask := logged_at(trace, name)) is not None}
    columns = [trace.signals[name][where] for name in widths]
    table = np.column_stack([np.zeros((len(part), 0)), *columns]).astype("<f8", copy=False)
    for start in range(0, len(part), size):
        here = slice(start, start + size)
        absent = {name: gaps.tolist() for name, mask in known.items() if len(gaps := np.flatnonzero(~mask[here]))}
        yield _batch(trace.steps[where][here].tolist(), widths, absent, table[here])


def _of_rows(batch: Sequence[Mapping[str, Any]], widths: Widths) -> dict[str, Any]:
    absent = {name: gaps for name in widths if (gaps := [at for at, row in enumerate(batch) if row[name] is None])}
    table: list[float] = []
    for row in batch:
        for name, width in widths.items():
            value = row[name]
            if width is None:
                table.append(0.0 if value is None else value)
            else:
                table += [0.0] * width if value is None else value
    return _batch([row["step"] for row in batch], widths, absent, np.array(table, "<f8"))


def _batch(steps: list[int], widths: Widths, absent: dict[str, list[int]], table: np.ndarray) -> dict[str, Any]:
    numbers = binascii.b2a_base64(table.tobytes(), newline=False).decode()
    return {"steps": steps, "columns": widths, "absent": absent, "numbers": numbers}


def _size(width: int | None) -> int:
    return 1 if width is None else width

"""Rows in batches, for a process that makes numbers only of the signals that it reads.

A batch has the steps, `columns` (signals in their order, to the length of their list, null for a single number),
`absent` (signals to the places of rows without a value) and `numbers`: base64 of float64, little end first, those of
one row after those of the one before. A signal that is no column has no value in any row.
"""

import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from struct import unpack_from
from typing import Any

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.replay.profiles import observe
from trainwreck.evaluation.replay.rows import NAMES, LoggedRow, logged_at, rows

BLOCK = 1024  # rows that are put together at a time
Widths = dict[str, int | None]
HEAD, STEPS, ABSENT = b'{"type":"rows","columns":', b',"steps":', b',"absent":'
NUMBERS, TAIL = b',"numbers":"', b'"}\n'
_compact = json.JSONEncoder(separators=(",", ":")).encode
Batch = tuple[list[int], bytes]
"""Steps, and the line of their rows."""


def batches(trace: Trace, profile: str, k: int, size: int) -> Iterator[Batch]:
    """Batches of the rows that a profile shows, `size` rows at a time; the rows of `observe`, bitwise."""
    widths = {
        name: None if values.ndim == 1 else values.shape[1]
        for name in NAMES
        if (values := trace.signals.get(name)) is not None
    }
    head = HEAD + _compact(widths).encode()
    if profile == "full":  # no Python number in between
        for start in range(0, len(trace), BLOCK - BLOCK % size):
            yield from _of_trace(trace, widths, head, range(start, min(start + BLOCK - BLOCK % size, len(trace))), size)
        return
    shown = observe(rows(trace), profile, k=k, run_id=trace.run_id, objective=trace.objective)
    while batch := list(islice(shown, size)):
        yield of_rows(batch, widths, head)


def of_rows(batch: Sequence[Mapping[str, Any]], widths: Widths, head: bytes = b"") -> Batch:
    """A batch of rows. widths: the columns. head: what `batches` begins a line with, made of them by default."""
    absent = {name: gaps for name in widths if (gaps := [at for at, row in enumerate(batch) if row[name] is None])}
    table: list[float] = []
    for row in batch:
        for name, width in widths.items():
            value = row[name]
            if width is None:
                table.append(0.0 if value is None else value)
            else:
                table += [0.0] * width if value is None else value
    numbers = memoryview(np.array(table, "<f8").tobytes())
    return _batch(
        head or HEAD + _compact(widths).encode(), [row["step"] for row in batch], _compact(absent).encode(), numbers
    )


class Unpacking:
    """The rows of lines as they come. What begins all lines of a run is read once, as are the signals absent."""

    def __init__(self) -> None:
        self._head = b""
        self._columns: dict[str, tuple[int, int | None]] = {}  # first number and width
        self._size = 0
        self._absent: dict[bytes, dict[str, list[int]]] = {}

    def rows(self, line: bytes) -> list[LoggedRow] | None:
        """The rows of a line; None where it is no batch. Raises ValueError for one that is damaged."""
        if not (self._head and line.startswith(self._head)):
            if not line.startswith(HEAD):
                return None
            self._begin(line)
        middle, gaps, at = len(self._head), line.index(ABSENT), line.rindex(NUMBERS)
        steps = [int(step) for step in line[middle + len(STEPS) + 1 : gaps - 1].split(b",")]
        absent = self._absent.get(key := line[gaps + len(ABSENT) : at])
        if absent is None:
            absent = self._absent[key] = json.loads(key)
        numbers = binascii.a2b_base64(line[at + len(NUMBERS) : -len(TAIL)])
        if len(numbers) != 8 * self._size * len(steps):
            raise ValueError(f"{len(numbers)} bytes of numbers for {len(steps)} rows")
        source = Packed(self._columns, self._size, absent, numbers)
        return [LoggedRow(step, source, at) for at, step in enumerate(steps)]

    def _begin(self, line: bytes) -> None:
        self._head, self._absent, self._columns, self._size = line[: line.index(STEPS)], {}, {}, 0
        for name, width in json.loads(line)["columns"].items():
            self._columns[name] = self._size, width
            self._size += 1 if width is None else width


class Packed:
    """Where a row fetches its signals: the numbers of the batch as they came."""

    __slots__ = ("_absent", "_columns", "_numbers", "_size")

    names = NAMES

    def __init__(
        self, columns: Mapping[str, tuple[int, int | None]], size: int, absent: Mapping[str, list[int]], numbers: bytes
    ) -> None:
        self._columns, self._size, self._absent, self._numbers = columns, size, absent, numbers

    def value(self, name: str, at: int) -> Any:
        """As `Source`."""
        column = self._columns.get(name)
        if column is None or at in self._absent.get(name, ()):
            return None
        first, width = column
        place = 8 * (at * self._size + first)
        if width is None:
            return unpack_from("<d", self._numbers, place)[0]
        return list(unpack_from(f"<{width}d", self._numbers, place))

    def row(self, at: int) -> list[Any]:
        """As `Source`."""
        return [self.value(name, at) for name in NAMES]


def _of_trace(trace: Trace, widths: Widths, head: bytes, part: range, size: int) -> Iterator[Batch]:
    where = slice(part.start, part.stop)
    known = {name: mask[where] for name in widths if (mask := logged_at(trace, name)) is not None}
    columns = [trace.signals[name][where] for name in widths]
    table = np.column_stack([np.zeros((len(part), 0)), *columns]).astype("<f8", copy=False)
    gaps = ~np.array(list(known.values()), bool).reshape(len(known), len(part)).T
    has_gaps = np.ascontiguousarray(gaps).tobytes()
    seen: dict[bytes, bytes] = {}  # which signals are absent, to the JSON of it
    steps, whole, row = trace.steps[where].tolist(), memoryview(table.tobytes()), table.shape[1] * table.itemsize
    for start in range(0, len(part), size):
        stop = start + size
        absent = seen.get(key := has_gaps[start * len(known) : stop * len(known)])
        if absent is None:
            here = {name: np.flatnonzero(gaps[start:stop, at]).tolist() for at, name in enumerate(known)}
            absent = seen[key] = _compact({name: rows for name, rows in here.items() if rows}).encode()
        yield _batch(head, steps[start:stop], absent, whole[start * row : stop * row])


def _batch(head: bytes, steps: list[int], absent: bytes, numbers: memoryview) -> Batch:
    middle = (head, STEPS, f"[{','.join(map(str, steps))}]".encode(), ABSENT, absent, NUMBERS)
    return steps, b"".join((*middle, binascii.b2a_base64(numbers, newline=False), TAIL))

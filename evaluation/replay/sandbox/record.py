"""A row as bytes, for a process that makes numbers only of the signals that it looks at.

A record is the step (int64), a byte a signal (1: it was logged), zeros up to a multiple of eight, then the numbers as
float64, a list's in its place; all in the order of bytes of the machine, as it never leaves it.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainwreck.evaluation.replay.logged_row import LoggedRow


class Layout:
    """What records hold. widths: signal to numbers in its list, None for a single number."""

    def __init__(self, widths: Mapping[str, int | None]) -> None:
        self.widths = dict(widths)
        self.names: dict[str, tuple[int, int, int | None]] = {}  # its byte, its first number, its width
        first = 0
        for i, (name, width) in enumerate(self.widths.items()):
            self.names[name] = (i, first, width)
            first += 1 if width is None else width
        self.numbers = first
        self.padding = -len(self.names) % 8
        self.head = 8 + len(self.names) + self.padding
        self.size = self.head + 8 * self.numbers
        self.dtype = np.dtype(
            [("step", "i8"), ("logged", "u1", (len(self.names) + self.padding,)), ("numbers", "f8", (self.numbers,))]
        )
        self._struct = struct.Struct(f"=q{len(self.names)}B{self.padding}x{self.numbers}d")

    def pack(self, row: Mapping[str, Any]) -> bytes:
        """The record of a row. Raises KeyError or struct.error for a row that does not fit."""
        logged: list[int] = []
        numbers: list[float] = []
        for name, width in self.widths.items():
            value = row[name]
            logged.append(value is not None)
            if width is None:
                numbers.append(0.0 if value is None else value)
            else:
                numbers.extend([0.0] * width if value is None else value)
        return self._struct.pack(row["step"], *logged, *numbers)

    def row(self, record: bytes) -> LoggedRow:
        """The row of a record. Raises ValueError for bytes that are none."""
        if len(record) != self.size:
            raise ValueError(f"a record of {len(record)} bytes where {self.size} are due")
        return LoggedRow(int.from_bytes(record[:8], _ORDER, signed=True), _Record(self, record), 0)


_ORDER: Any = "little" if np.little_endian else "big"


class _Record:
    """The signals of one row; it has no other row's."""

    __slots__ = ("_logged", "_numbers", "names")

    def __init__(self, layout: Layout, record: bytes) -> None:
        self.names = layout.names
        self._logged = record[8 : layout.head]
        self._numbers = memoryview(record)[layout.head :].cast("d")

    def value(self, name: str, at: int) -> Any:
        index, first, width = self.names[name]
        if not self._logged[index]:
            return None
        return self._numbers[first] if width is None else self._numbers[first : first + width].tolist()

    def row(self, at: int) -> Sequence[Any]:
        return [self.value(name, at) for name in self.names]

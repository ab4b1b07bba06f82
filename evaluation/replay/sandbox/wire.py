"""How the harness and the runner in a Python detector's process talk.

A message is a kind (one byte), a length (uint32) and as many bytes, over a pipe each way:

LOAD    JSON, which detector            LOADED    JSON, what it says of itself
RESET   JSON, context and layout        READY
ROWS    records, one after the other    ANSWERED
FINISH                                  FINISHED  JSON, the size of its state

or, instead of any answer, FAILED with JSON: kind of failure (INPUT: bad input), reason. The verdicts themselves
lie in memory that both processes see, in a slot for each row of the batch, so that what was said before a crash in
the midst of a batch is known, and the harness sees how far the detector has come.
"""

import json
import mmap
import struct
from collections.abc import Sequence
from typing import Any

from trainwreck.evaluation.detectors.base import OutputError

HEAD = struct.Struct("=cI")
LOAD, RESET, ROWS, FINISH = b"L", b"R", b"T", b"F"
LOADED, READY, ANSWERED, FINISHED, FAILED = b"l", b"r", b"t", b"f", b"!"
INPUT = "input"

SLOT = 4096
_COUNT = struct.Struct("=I")
_VERDICT = struct.Struct("=d?QH")  # score, alarm, nanoseconds, bytes of JSON that follow: the causes
MOST_CAUSES = SLOT - _VERDICT.size  # bytes


def message(kind: bytes, payload: bytes = b"") -> bytes:
    """As it goes over the pipe."""
    return HEAD.pack(kind, len(payload)) + payload


def whole(buffer: bytearray) -> int:
    """Length of the message at the front of a buffer; 0 while it is not complete."""
    if len(buffer) < HEAD.size:
        return 0
    length: int = HEAD.size + HEAD.unpack_from(buffer)[1]
    return length if len(buffer) >= length else 0


class Slots:
    """The verdicts of a batch. file: of `size(batch)` bytes, open for reading and writing in both processes."""

    def __init__(self, file: int, batch: int) -> None:
        self._memory = mmap.mmap(file, self.size(batch))

    @staticmethod
    def size(batch: int) -> int:
        """Bytes of the file."""
        return SLOT * (batch + 1)

    def clear(self) -> None:
        """Before a batch."""
        _COUNT.pack_into(self._memory, 0, 0)

    def count(self) -> int:
        """Rows of the batch that were answered."""
        return int(_COUNT.unpack_from(self._memory)[0])

    def put(self, at: int, score: float, alarm: bool, nanoseconds: int, causes: Sequence[str]) -> None:
        """The verdict on row `at`, which makes it `at + 1` rows. Raises OutputError for causes that do not fit."""
        said = json.dumps(causes).encode() if causes else b""
        if len(said) > MOST_CAUSES:
            raise OutputError(f"causes: {len(said)} bytes are too many; allowed: {MOST_CAUSES}")
        start = SLOT * (at + 1)
        _VERDICT.pack_into(self._memory, start, score, alarm, nanoseconds, len(said))
        if said:
            self._memory[start + _VERDICT.size : start + _VERDICT.size + len(said)] = said
        _COUNT.pack_into(self._memory, 0, at + 1)

    def get(self, at: int) -> tuple[float, bool, int, Any]:
        """Score, alarm, nanoseconds and causes. Raises OutputError where the last are no JSON."""
        start = SLOT * (at + 1)
        score, alarm, nanoseconds, length = _VERDICT.unpack_from(self._memory, start)
        start += _VERDICT.size
        said = self._memory[start : start + min(length, MOST_CAUSES)]
        try:
            return score, alarm, nanoseconds, json.loads(said) if said else ()
        except ValueError:
            raise OutputError("causes: not JSON") from None

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()

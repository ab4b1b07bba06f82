"""Real text, byte by byte: any file, or the sources of Python's standard library.

The corpus is a list of documents; rows are windows of the concatenation at random places. The last
tenth of the bytes is held out for validation. A corpus is identified by the hash of its bytes.
"""

import hashlib
import sysconfig
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import generator
from trainwreck.scenarios.data.sources.language import Rows

HELD_OUT = 0.1


class Text:
    """Windows of a byte corpus. Its entropy is not known: `nats` is NaN."""

    vocabulary = 256

    def __init__(self, documents: list[bytes]) -> None:
        self.bytes = np.frombuffer(b"".join(documents), np.uint8)
        self.document = np.repeat(np.arange(len(documents)), [len(d) for d in documents])

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the corpus, hexadecimal."""
        return hashlib.sha256(self.bytes.tobytes()).hexdigest()

    def sample(self, seed: int, stream: str, steps: range, rows: int, context: int) -> Rows:
        """Rows for a range of steps, each array [S, B, T + 1]."""
        split = int(len(self.bytes) * (1 - HELD_OUT))
        low, high = (split, len(self.bytes)) if stream == "validation" else (0, split)
        last = high - context - 1
        if last < low:
            raise InputError(f"data.text: {high - low} bytes are too few; allowed: {context + 1} or more")
        starts = np.stack([generator(seed, stream, s).integers(low, last, rows, endpoint=True) for s in steps])
        where = starts[..., None] + np.arange(context + 1)
        blank = np.full(where.shape, np.nan)
        return Rows(self.bytes[where].astype(np.int64), self.document[where], blank, np.zeros(where.shape, np.int8))


@lru_cache(maxsize=4)
def open_text(path: str) -> Text:
    """The corpus of a file (one document), or of the standard library where path is empty."""
    if path:
        try:
            return Text([Path(path).read_bytes()])
        except OSError as error:
            raise InputError(f"data.text: {path!r} can't be read ({error.strerror})") from None
    folder = Path(sysconfig.get_paths()["stdlib"])
    return Text([file.read_bytes() for file in sorted(folder.glob("*.py"))])

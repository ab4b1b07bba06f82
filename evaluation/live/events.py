"""Points of TensorBoard event files that are still being written, record by record.

A record is its length, a checksum of that, the content, and a checksum of it; one that is not there to its
end is waited for. All event files of a folder are one run, in the order of their names.
"""

import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.extras import require
from trainwreck.evaluation.live.columns import Columns
from trainwreck.evaluation.live.tables import Found
from trainwreck.evaluation.logs.log import checked_step
from trainwreck.evaluation.logs.names import Target
from trainwreck.evaluation.logs.numbers import Numbers
from trainwreck.evaluation.logs.readers.tensorboard import FOOT, HEAD, event_files, scalar_of


class Events:
    """A file, or a folder with the event files of one run, that may not be there yet."""

    def __init__(self, path: Path, mapping: Mapping[str, Target]) -> None:
        self.path = path
        self.columns = Columns(mapping, has_step=False)
        self.rules: Counter[str] = Counter()
        self._read_to: dict[Path, int] = {}
        # Here, so that a library that is missing is told at once.
        self._parse = require("tensorboard.compat.proto.event_pb2", "tensorboard").Event.FromString
        self._checksum = require("tensorboard.compat.tensorflow_stub.pywrap_tensorflow", "tensorboard").masked_crc32c

    def poll(self) -> Iterator[Found]:
        """The points that came since the last call, each as a row of its own."""
        files = event_files(self.path) if self.path.exists() else []
        folders = sorted({str(file.parent) for file in files})
        if len(folders) > 1:
            raise InputError(f"{self.path}: several runs in it; allowed: one of {', '.join(folders)}")
        for file in files:
            yield from self._points(file)

    def finish(self) -> Iterator[Found]:
        """Nothing; InputError where no tag was a known signal."""
        cut = sum(file.stat().st_size > at for file, at in self._read_to.items())
        if cut:
            self.rules["cut off last record"] += cut
        self.columns.require(str(self.path))
        return iter(())

    def close(self) -> None:
        """No file is held open."""

    def _points(self, file: Path) -> Iterator[Found]:
        for content in self._records(file):
            event = self._parse(content)
            for value in event.summary.value:
                number = scalar_of(value)
                if number is None:
                    continue
                place = f"{file}: tag {value.tag!r}"
                _, values = self.columns.read({value.tag: number}, Numbers(), place)
                if values:
                    yield checked_step(event.step, place), values

    def _records(self, file: Path) -> Iterator[Any]:
        at = self._read_to.get(file, 0)
        with file.open("rb") as stream:
            size = stream.seek(0, 2)
            if size < at:
                raise InputError(f"{file}: shorter than it was; allowed: an event file that grows")
            while size - at >= HEAD:
                stream.seek(at)
                head = stream.read(HEAD)
                length, checksum = struct.unpack("<QI", head)
                if self._checksum(head[:8]) != checksum:
                    raise InputError(f"{file}: damaged at byte {at}")
                if at + HEAD + length + FOOT > size:
                    break
                content, foot = stream.read(length), stream.read(FOOT)
                if self._checksum(content) != struct.unpack("<I", foot)[0]:
                    raise InputError(f"{file}: damaged at byte {at}")
                at += HEAD + length + FOOT
                self._read_to[file] = at
                yield content
        self._read_to[file] = at

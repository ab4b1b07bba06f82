"""Points of TensorBoard event files that are still being written, record by record.

A record that is not there to its end is waited for. All event files of a folder are one run, in the order of their
names.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.extras import require
from trainwreck.evaluation.live.columns import Columns
from trainwreck.evaluation.live.tables import Found
from trainwreck.evaluation.logs.limits import LogLimits, Memory
from trainwreck.evaluation.logs.log import checked_step
from trainwreck.evaluation.logs.names import Target
from trainwreck.evaluation.logs.numbers import Numbers
from trainwreck.evaluation.logs.readers.tensorboard import event_files, events_from, scalar_of


class Events:
    """A file, or a folder with the event files of one run, that may not be there yet."""

    def __init__(self, path: Path, mapping: Mapping[str, Target], limits: LogLimits | None = None) -> None:
        self.path, self.limits = path, limits or LogLimits()
        self.columns = Columns(mapping, has_step=False, limits=limits)
        self.rules: Counter[str] = Counter()
        self._read_to: dict[Path, int] = {}
        require("tensorboard.compat.proto.event_pb2", "tensorboard")  # one that is missing is told at once

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
        at = self._read_to.setdefault(file, 0)
        for event, end in events_from(file, at, Memory(self.limits)):
            self._read_to[file] = end
            for value in event.summary.value:
                number = scalar_of(value)
                if number is None:
                    continue
                place = f"{file}: tag {value.tag!r}"
                _, values = self.columns.read({value.tag: number}, Numbers(), place)
                if values:
                    yield checked_step(event.step, place), values

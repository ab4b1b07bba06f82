"""TensorBoard event files: every scalar point, of old and new style, of all files of a folder.

A folder with event files is a run; several files in it, as a resumed run leaves them, are one. Its
accumulator would keep 10,000 scalars and 10 tensors of a tag, so the files are read event by event.
After a restart with a purge step, points from that step on that were written before are dropped, as
TensorBoard does. A last record that was not written to its end is skipped; damage before it is refused.
"""

import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.extras import require
from trainwreck.evaluation.logs.log import Asked, Log, Points, checked_step
from trainwreck.evaluation.logs.names import choose

MARK = "tfevents"
HEAD, FOOT = 12, 4  # bytes of a record's length with its checksum, and of the checksum of its content


def event_files(path: Path) -> list[Path]:
    """A file itself, or every event file under a folder."""
    return [path] if path.is_file() else sorted(file for file in path.rglob(f"*{MARK}*") if file.is_file())


def read_tensorboard(path: Path, asked: Asked) -> list[Log]:
    """A run for each folder with event files, named by its way from `path`."""
    folders: dict[Path, list[Path]] = {}
    for file in event_files(path):
        folders.setdefault(file.parent, []).append(file)
    if not folders:
        raise InputError(f"{path}: no event file in it; allowed: files with {MARK!r} in their names")
    logs = []
    for folder, files in folders.items():
        name = folder.relative_to(path).as_posix() if path.is_dir() and folder != path else ""
        logs.append(_read_run(name, files, asked))
    return logs


def _read_run(name: str, files: list[Path], asked: Asked) -> Log:
    scalars: dict[str, Points] = {}
    rules: Counter[str] = Counter()
    for file in files:
        for event in _events(file, rules):
            if event.HasField("session_log") and event.session_log.status == event.session_log.START and event.step > 0:
                rules["purged"] += sum(_purge(points, event.step) for points in scalars.values())
            for value in event.summary.value:
                number = scalar_of(value)
                if number is not None:
                    checked_step(event.step, f"{file}: tag {value.tag!r}")
                    scalars.setdefault(value.tag, Points()).add(event.step, number)
    place = str(files[0] if len(files) == 1 else files[0].parent)
    if not scalars:
        raise InputError(f"{place}: no scalar in its event files")
    choice = choose(list(scalars), asked.mapping, place, has_step=False)
    points = {target: scalars[tag] for tag, target in choice.signals.items()}
    return Log(name, "tensorboard", files, choice, points, +rules)


def _events(file: Path, rules: Counter[str]) -> Iterator[Any]:
    loader = require("tensorboard.backend.event_processing.event_file_loader", "tensorboard")
    whole, cut = _records(file)
    read = 0
    for event in loader.LegacyEventFileLoader(str(file)).Load():
        read += 1
        yield event
    if read < whole:
        raise InputError(f"{file}: damaged at record {read + 1} of {whole}")
    rules["cut off last record"] += cut


def _records(file: Path) -> tuple[int, int]:
    """How many records lie whole in a file by their lengths, and whether (1 or 0) a part of one is left."""
    size, whole = file.stat().st_size, 0
    with file.open("rb") as stream:
        while (at := stream.tell()) < size:
            head = stream.read(HEAD)
            if len(head) < HEAD:
                return whole, 1
            (length,) = struct.unpack("<Q", head[:8])
            if at + HEAD + length + FOOT > size:
                return whole, 1
            stream.seek(length + FOOT, 1)
            whole += 1
    return whole, 0


def scalar_of(value: Any) -> float | None:
    """The number of a summary's value, None where it is none: an image, a histogram, a text."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return float(value.simple_value)
    if kind != "tensor" or value.metadata.plugin_data.plugin_name not in ("scalars", ""):
        return None
    array = require("tensorboard.util.tensor_util", "tensorboard").make_ndarray(value.tensor)
    return float(array) if array.shape == () and array.dtype.kind in "fiu" else None


def _purge(points: Points, step: int) -> int:
    """Drop the points from a step on; how many they were."""
    kept = [(at, value) for at, value in zip(points.steps, points.values, strict=True) if at < step]
    dropped = len(points.steps) - len(kept)
    points.steps, points.values = [at for at, _ in kept], [value for _, value in kept]
    return dropped

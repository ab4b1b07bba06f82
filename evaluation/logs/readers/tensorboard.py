"""TensorBoard event files: every scalar point, of old and new style, of all files of a folder.

A folder with event files is a run; several files in it, as a resumed run leaves them, are one. Its
accumulator would keep 10,000 scalars and 10 tensors of a tag, so the files are read event by event: a record is its
length, a checksum of that, the content, and a checksum of it.
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
from trainwreck.evaluation.logs.limits import POINT, TEXT, Memory
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
        for event in _events(file, rules, asked.memory):
            if event.HasField("session_log") and event.session_log.status == event.session_log.START and event.step > 0:
                rules["purged"] += sum(_purge(points, event.step) for points in scalars.values())
            for value in event.summary.value:
                number = scalar_of(value)
                if number is not None:
                    checked_step(event.step, f"{file}: tag {value.tag!r}")
                    asked.memory.take(POINT, str(file))
                    scalars.setdefault(value.tag, Points()).add(event.step, number)
                    asked.memory.limits.check_columns(len(scalars), str(file))
    place = str(files[0] if len(files) == 1 else files[0].parent)
    if not scalars:
        raise InputError(f"{place}: no scalar in its event files")
    choice = choose(list(scalars), asked.mapping, place, has_step=False)
    points = {target: scalars[tag] for tag, target in choice.signals.items()}
    return Log(name, "tensorboard", files, choice, points, +rules)


def _events(file: Path, rules: Counter[str], memory: Memory) -> Iterator[Any]:
    read_to = 0
    for event, end in events_from(file, 0, memory):
        read_to = end
        yield event
    rules["cut off last record"] += file.stat().st_size > read_to


def events_from(file: Path, at: int, memory: Memory) -> Iterator[tuple[Any, int]]:
    """The events whose records are there to their end, from a byte on, each with the byte behind it.

    InputError for a record that its checksum contradicts, or that is no event.
    """
    parse = require("tensorboard.compat.proto.event_pb2", "tensorboard").Event.FromString
    checksum = require("tensorboard.compat.tensorflow_stub.pywrap_tensorflow", "tensorboard").masked_crc32c
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        if size < at:
            raise InputError(f"{file}: shorter than it was; allowed: an event file that grows")
        while size - at >= HEAD:
            stream.seek(at)
            head = stream.read(HEAD)
            length, check = struct.unpack("<QI", head)
            if checksum(head[:8]) != check:
                raise InputError(f"{file}: damaged at byte {at}")
            if at + HEAD + length + FOOT > size:
                break
            with memory.for_a_while():
                memory.take(TEXT * length, f"{file}, byte {at}")
            content, foot = stream.read(length), stream.read(FOOT)
            if len(foot) < FOOT or checksum(content) != struct.unpack("<I", foot)[0]:
                raise InputError(f"{file}: damaged at byte {at}")
            try:
                event = parse(content)
            except Exception as error:  # protobuf's own DecodeError, which moves between its versions
                raise InputError(f"{file}: damaged at byte {at} ({error})") from None
            at += HEAD + length + FOOT
            yield event, at


def scalar_of(value: Any) -> float | None:
    """The number of a summary's value, None where it is none: an image, a histogram, a text, a tensor with axes."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return float(value.simple_value)
    if kind != "tensor" or value.metadata.plugin_data.plugin_name not in ("scalars", ""):
        return None
    if value.tensor.tensor_shape.dim:  # before it is made: a shape of 3e9 elements may stand over one value
        return None
    try:
        array = require("tensorboard.util.tensor_util", "tensorboard").make_ndarray(value.tensor)
    except (TypeError, ValueError, KeyError):  # of no type that there is, or not as many values as that needs
        return None
    return float(array) if array.shape == () and array.dtype.kind in "fiu" else None


def _purge(points: Points, step: int) -> int:
    """Drop the points from a step on; how many they were."""
    kept = [(at, value) for at, value in zip(points.steps, points.values, strict=True) if at < step]
    dropped = len(points.steps) - len(kept)
    points.steps, points.values = [at for at, _ in kept], [value for _, value in kept]
    return dropped

"""W&B: an export of a chart (CSV), of a run's history (CSV or JSON Lines), or what an offline run left (`.wandb`).

A chart's CSV has a column `RUN - KEY` for each run, with `RUN - KEY__MIN` and `__MAX`: each run in it
becomes one here. The web page exports what it draws, which of a long run is a sample. The history
has `_step`, W&B's counter of calls to `log`, unless a trainer logged a step of its own beside.

`.wandb` is a log file of LevelDB (blocks of 32 KiB; records with checksum, length and kind, of which
one may be parted over blocks) with a header of seven bytes, and holds protocol buffers of `wandb`.
"""

import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.extras import require
from trainwreck.evaluation.files import parse_json
from trainwreck.evaluation.logs.limits import CELL, ROW
from trainwreck.evaluation.logs.log import Asked, Log
from trainwreck.evaluation.logs.names import STEP, signal_of
from trainwreck.evaluation.logs.numbers import Numbers
from trainwreck.evaluation.logs.readers.csv import Table, read_csv
from trainwreck.evaluation.logs.readers.jsonl import read_jsonl
from trainwreck.evaluation.logs.rows import Row, flat, log_of_rows

JOINT = " - "
RANGE = ("__MIN", "__MAX")
MAGIC = b":W&B"
HEADER, BLOCK, RECORD = 7, 32768, 7  # bytes
FULL, FIRST, LAST = 1, 2, 4  # kinds of a record; 3 is a part in the middle, 0 fills a block up


def offline_files(path: Path) -> list[Path]:
    """A `.wandb` file itself, or every one under a folder."""
    return [path] if path.is_file() else sorted(path.rglob("*.wandb"))


def is_chart(header: list[str]) -> bool:
    """Whether the columns are those of a chart's export, with ranges or without."""
    if any(name.endswith(RANGE[0]) and JOINT in name for name in header):
        return True
    axis = next((name for name in header if name), "")
    return signal_of(axis)[0] == STEP and any(
        JOINT in name and signal_of(name.rpartition(JOINT)[2])[0] and not signal_of(name)[0] for name in header
    )


def read_wandb(path: Path, asked: Asked) -> list[Log]:
    """Every run of an export."""
    if path.is_dir() or path.suffix == ".wandb":
        files = offline_files(path)
        if not files:
            raise InputError(f"{path}: no .wandb file in it")
        return [_one_offline(file, file.parent.name if len(files) > 1 else "", asked) for file in files]
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return read_jsonl(path, asked, "wandb")
    table = Table(path, asked.memory)
    return _chart(table, asked) if is_chart(table.header) else read_csv(path, asked, "wandb")


def _chart(table: Table, asked: Asked) -> list[Log]:
    common = [name for name in table.header if JOINT not in name]
    runs: dict[str, dict[str, str]] = {}
    for name in table.header:
        run, joint, key = name.rpartition(JOINT)
        if joint and not key.endswith(RANGE):
            runs.setdefault(run, {})[key] = name
    logs = []
    for run, columns in runs.items():
        full = {**columns, **{name: name for name in common}}  # the chart's own axis before a run's `_step`
        rows: list[Row] = [  # a run has no rows where others go on
            (place, {key: row.get(name) for key, name in full.items()})
            for place, row in table.rows
            if any(row.get(name) for key, name in columns.items() if signal_of(key)[0] != STEP)
        ]
        table.once([*columns.values(), *common])
        names = [*common, *columns]
        log = log_of_rows("wandb", table.file, names, rows, asked, table.numbers, name=run, writes_nan=True)
        log.rules.update(table.rules)
        logs.append(log)
    return logs


def _one_offline(file: Path, name: str, asked: Asked) -> Log:
    with asked.memory.for_a_while():
        log = _offline(file, name, asked)
    asked.memory.take(log.bytes, str(file))
    return log


def _offline(file: Path, name: str, asked: Asked) -> Log:
    messages = require("wandb.proto.wandb_internal_pb2", "wandb")
    rules: Counter[str] = Counter()
    rows: list[Row] = []
    names: dict[str, None] = {}
    asked.memory.take_file(file)
    for number, content in enumerate(_records(file, rules), start=1):
        record = messages.Record()
        try:
            record.ParseFromString(content)
        except Exception as error:  # protobuf's own DecodeError, which moves between its versions
            raise InputError(f"{file}: record {number} is not one of W&B ({error})") from None
        if record.WhichOneof("record_type") != "history":
            continue
        place = f"{file}, record {number}"
        row: dict[str, Any] = {"_step": record.history.step.num}
        for item in record.history.item:
            try:
                row |= flat({item.key or "/".join(item.nested_key): parse_json(item.value_json)})
            except InputError as error:
                raise InputError(f"{place}: {error}") from None
            except ValueError as error:
                raise InputError(f"{place}: not JSON ({error})") from None
        asked.memory.take(ROW + CELL * len(row), place)
        rows.append((place, row))
        names |= dict.fromkeys(row)
        asked.memory.limits.check_columns(len(names), place)
    if not rows:
        raise InputError(f"{file}: no history in it")
    log = log_of_rows("wandb", file, list(names), rows, asked, Numbers(), name=name, writes_nan=True)
    log.rules.update(rules)
    return log


def _records(file: Path, rules: Counter[str]) -> Iterator[bytes]:
    content = file.read_bytes()
    if not content.startswith(MAGIC):
        raise InputError(f"{file}: not a .wandb file, its first bytes are not {MAGIC.decode()}")
    at, parts = HEADER, bytearray()
    while at < len(content):
        left = BLOCK - at % BLOCK
        if left < RECORD:  # too little for a record: the block is filled up with zeros
            at += left
            continue
        if at + RECORD > len(content):
            rules["cut off last record"] += 1
            return
        _, length, kind = struct.unpack("<IHB", content[at : at + RECORD])
        at += RECORD
        if kind == 0 or kind > LAST or length > left - RECORD:
            raise InputError(f"{file}: damaged at byte {at - RECORD}")
        if at + length > len(content):
            rules["cut off last record"] += 1
            return
        if kind in (FULL, FIRST):
            parts.clear()
        parts += content[at : at + length]
        at += length
        if kind in (FULL, LAST):
            yield bytes(parts)

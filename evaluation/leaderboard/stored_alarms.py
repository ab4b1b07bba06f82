"""A detector's alarms on every run that is scored, in one small Parquet file to recompute its scores from.

One row a run. Of the scores only those rows are kept at which the largest score so far rises: the first
step at which a run exceeds a threshold is among them, whatever the threshold, and so is the largest score before
any step. Thresholds frozen on calibration runs, recall at a budget and operating curves need no more.
The detector's own alarms are kept as steps of new alarms (`alarms.rising_edges`), the first of which ends the run.

The file's metadata names format and version, detector, profile, track and the telemetry that it is about.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trainwreck.evaluation.errors import InputError, printable
from trainwreck.evaluation.files import write_parquet
from trainwreck.evaluation.replay.alarms import Alarms

FORMAT = "trainwreck-alarms"
VERSION = 2
OLD = 1  # before causes were kept by threshold, and a non-finite loss outranked all: scoring version 1
KEY = b"trainwreck"

SCHEMA = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("rows", pa.int32(), nullable=False),  # that it judged
        pa.field("last_judged", pa.int32(), nullable=False),  # step of the last of them, -1 without one
        pa.field("edges", pa.list_(pa.int32()), nullable=False),  # steps of new alarms
        pa.field("causes", pa.list_(pa.string()), nullable=False),  # named at the first
        pa.field("rise_steps", pa.list_(pa.int32()), nullable=False),
        pa.field("rise_scores", pa.list_(pa.float64()), nullable=False),
        pa.field("answer_steps", pa.list_(pa.int32()), nullable=False),  # rises at which the causes named last changed
        pa.field("answer_causes", pa.list_(pa.list_(pa.string())), nullable=False),  # to these
        pa.field("update_us", pa.float64(), nullable=False),
        pa.field("state_bytes", pa.int64()),  # empty where it could not be measured
        pa.field("stderr", pa.list_(pa.string()), nullable=False),  # last lines that were printed, of one that failed
    ]
)


@dataclass(frozen=True)
class StoredAlarms(Alarms):
    """Alarms of which only the rows are left at which the largest score so far rose. `alarm` is False there.

    judged: rows that the detector judged; judged_until: the step of the last.
    """

    judged: int = 0
    judged_until: int = -1

    @property
    def rows(self) -> int:
        return self.judged

    @property
    def last_judged(self) -> int:
        return self.judged_until


@dataclass(frozen=True)
class AlarmFile:
    """Alarms with what they are of. telemetry: `dataset.telemetry_digest`. k: steps between thinned rows.

    version: of the file. One of version 1 knows the causes of the detector's own alarm only, and ranks a non-finite
    loss as any other largest score.
    """

    path: Path
    detector: str
    profile: str
    track: str
    k: int
    telemetry: str
    about: dict[str, Any]
    alarms: tuple[StoredAlarms, ...]
    version: int = VERSION


def reduced(alarms: Alarms) -> StoredAlarms:
    """The same with only the rows at which the largest score so far rises.

    >>> import numpy as np
    >>> steps, scores = np.arange(5), np.array([0.5, 0.2, 0.7, 0.7, 0.9])
    >>> alarms = Alarms("r", steps, scores, scores > 0.8, np.array([4]), 4, (), "ok", 1.0, 0)
    >>> found = reduced(alarms)
    >>> found.steps.tolist(), found.scores.tolist(), found.rows, found.last_judged
    ([0, 2, 4], [0.5, 0.7, 0.9], 5, 4)
    """
    before = np.concatenate([[-np.inf], np.maximum.accumulate(alarms.scores)[:-1]])[: len(alarms.scores)]
    rises = alarms.scores > before
    return StoredAlarms(
        run_id=alarms.run_id,
        steps=alarms.steps[rises],
        scores=alarms.scores[rises],
        alarm=np.zeros(int(rises.sum()), dtype=bool),
        edges=alarms.edges,
        first_alarm=alarms.first_alarm,
        causes=alarms.causes,
        status=alarms.status,
        update_us=alarms.update_us,
        state_bytes=alarms.state_bytes,
        stderr=alarms.stderr,
        judged=alarms.rows,
        judged_until=alarms.last_judged,
        answers=alarms.answers,
    )


def write_alarms(
    path: Path,
    alarms: Sequence[Alarms],
    *,
    detector: str,
    profile: str,
    track: str,
    k: int,
    telemetry: str,
    about: dict[str, Any],
) -> None:
    """Write one detector's alarms under one profile and track, by run id."""
    rows = []
    for one in sorted(map(reduced, alarms), key=lambda stored: stored.run_id):
        rows.append(
            {
                "run_id": one.run_id,
                "status": one.status,
                "rows": one.rows,
                "last_judged": one.last_judged,
                "edges": one.edges,
                "causes": list(one.causes),
                "rise_steps": one.steps,
                "rise_scores": one.scores,
                "answer_steps": [step for step, _ in one.answers],
                "answer_causes": [list(causes) for _, causes in one.answers],
                "update_us": one.update_us,
                "state_bytes": one.state_bytes,
                "stderr": list(one.stderr),
            }
        )
    facts = {
        "format": FORMAT, "version": VERSION, "detector": detector, "profile": profile, "track": track, "k": k,
        "telemetry": telemetry, "about": about,
    }  # fmt: skip
    schema = SCHEMA.with_metadata({KEY: json.dumps(facts, sort_keys=True, allow_nan=False).encode()})
    write_parquet(path, [pa.Table.from_pylist(rows, schema=schema)])


def read_alarms(path: Path) -> AlarmFile:
    """Read what `write_alarms` wrote. What it says of which runs is checked by `rescore`, which knows them.

    InputError for a file that is missing, damaged, something else or of another version.
    """
    if not path.is_file():
        raise InputError(f"alarms: {str(path)!r} is not a file")
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: damaged, not Parquet ({' '.join(str(error).split())})") from None
    facts = _facts(path, table.schema)
    if facts["version"] == OLD:
        for name in ("answer_steps", "answer_causes"):
            nothing = pa.array([[]] * len(table), SCHEMA.field(name).type)
            table = table.drop_columns([name] if name in table.column_names else []).append_column(name, nothing)
    for field in SCHEMA:
        if field.name not in table.column_names:
            raise InputError(f"{path}: damaged, it has no column {field.name}")
        found = table.schema.field(field.name).type
        if found != field.type:
            raise InputError(f"{path}: column {field.name}: type {found} is not allowed; allowed: {field.type}")
        if not field.nullable and _has_null(table.column(field.name)):
            raise InputError(f"{path}: column {field.name}: an empty value is not allowed; allowed: {field.type}")
    return AlarmFile(path=path, alarms=tuple(map(_restored, table.to_pylist())), **facts)


def _facts(path: Path, schema: pa.Schema) -> dict[str, Any]:
    try:
        facts = json.loads((schema.metadata or {})[KEY])
        written = facts["format"]
    except (KeyError, ValueError, TypeError, RecursionError):
        written = None
    if written != FORMAT:
        raise InputError(f"{path}: not alarms of Trainwreck; allowed: what `trainwreck score --alarms` writes")
    if facts.get("version") not in (OLD, VERSION):
        raise InputError(f"{path}: alarms version {facts.get('version')!r} is not allowed; allowed: {OLD}, {VERSION}")
    kinds = {"detector": str, "profile": str, "track": str, "k": int, "telemetry": str, "about": dict, "version": int}
    for name, kind in kinds.items():
        value = facts.get(name)
        if not isinstance(value, kind) or value == "" or isinstance(value, bool):
            raise InputError(f"{path}: {name}: {value!r} is not allowed; allowed: {kind.__name__}")
    about = {key: printable(value) if isinstance(value, str) else value for key, value in facts["about"].items()}
    return {name: facts[name] for name in kinds} | {"detector": printable(facts["detector"]), "about": about}


def _has_null(column: pa.ChunkedArray) -> bool:
    if column.null_count:
        return True
    return pa.types.is_list(column.type) and any(chunk.flatten().null_count for chunk in column.chunks)


def _restored(row: dict[str, Any]) -> StoredAlarms:
    edges = np.array(row["edges"], dtype=np.int64)
    return StoredAlarms(
        run_id=row["run_id"],
        steps=np.array(row["rise_steps"], dtype=np.int64),
        scores=np.array(row["rise_scores"], dtype=np.float64),
        alarm=np.zeros(len(row["rise_steps"]), dtype=bool),
        edges=edges,
        first_alarm=int(edges[0]) if len(edges) else None,
        causes=tuple(row["causes"]),
        status=printable(row["status"]),
        update_us=row["update_us"],
        state_bytes=row["state_bytes"],
        stderr=tuple(map(printable, row["stderr"])),
        answers=tuple(
            (step, tuple(causes)) for step, causes in zip(row["answer_steps"], row["answer_causes"], strict=False)
        ),
        judged=row["rows"],
        judged_until=row["last_judged"],
    )

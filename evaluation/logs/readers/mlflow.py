"""MLflow: a run's folder of the file store, folders of such, or the database `mlflow.db` of SQLite.

File store (its layout as MLflow's `FileStore` writes it): RUN/metrics/KEY, one line a point with time
stamp, value and step. Database: the tables `runs` and `metrics`; it has no NaN, but marks one, and
holds infinity as the largest double. Both are read without MLflow. Deleted runs are left out. Each table of a database
is read once and joined here, and no view is: what a file makes SQLite do grows with its size.
"""

import math
import re
import sqlite3
import sys
from contextlib import closing
from io import StringIO
from pathlib import Path

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.limits import MIB, POINT, ROW, Memory
from trainwreck.evaluation.logs.log import Asked, Log, Points, checked_step
from trainwreck.evaluation.logs.names import choose
from trainwreck.evaluation.logs.numbers import Numbers
from trainwreck.evaluation.logs.text import read_text

LONGEST = 80  # characters of a name in a message
SQLITE = b"SQLite format 3\x00"


def is_database(file: Path) -> bool:
    """Whether a file is one of SQLite."""
    with file.open("rb") as stream:
        return stream.read(len(SQLITE)) == SQLITE


def run_folders(path: Path) -> list[Path]:
    """Folders of runs: the path itself, or up to two levels under it."""
    found = [path, *path.glob("*"), *path.glob("*/*")]
    return sorted(f for f in found if (f / "meta.yaml").is_file() and (f / "metrics").is_dir())


def read_mlflow(path: Path, asked: Asked) -> list[Log]:
    """Every run that has a metric, named by its id."""
    logs = _from_database(path, asked) if path.is_file() else _from_folders(path, asked)
    if not logs:
        raise InputError(f"{path}: no run with a metric in it; allowed: an MLflow run, folders of them, or mlflow.db")
    return logs


def _from_folders(path: Path, asked: Asked) -> list[Log]:
    logs = []
    for folder in run_folders(path):
        if "lifecycle_stage: deleted" in read_text(folder / "meta.yaml", asked.memory).splitlines():
            continue
        files = sorted(file for file in (folder / "metrics").rglob("*") if file.is_file())
        keys = {file.relative_to(folder / "metrics").as_posix(): file for file in files}
        if not keys:
            continue
        asked.memory.limits.check_columns(len(keys), str(folder))
        choice = choose(list(keys), asked.mapping, str(folder), has_step=False)
        points = {target: _points_of(keys[key], asked.memory) for key, target in choice.signals.items()}
        name = folder.name if folder != path else ""
        logs.append(Log(name, "mlflow", [folder / "meta.yaml", *files], choice, points))
    return logs


def _points_of(file: Path, memory: Memory) -> Points:
    points, numbers = Points(), Numbers()
    for number, line in enumerate(map(str.rstrip, StringIO(read_text(file, memory))), start=1):
        place = f"{file}, line {number}"
        words = line.split()
        if len(words) < 3:  # a data set's name and digest may follow
            raise InputError(f"{place}: {line[:40]!r} is not allowed; allowed: a time stamp, a value and a step")
        value, step = numbers.value(words[1], place), numbers.step(words[2], place)
        if value is not None and step is not None:
            memory.take(POINT, place)
            points.add(checked_step(step, place), value)
    return points


def _from_database(path: Path, asked: Asked) -> list[Log]:
    runs: dict[str, dict[str, Points]] = {}
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MIB)
            _check_tables(database, path)
            started = _started(database, path, asked.memory)
            for run_id, name, step, value, is_nan in database.execute(
                "SELECT run_uuid, key, step, value, is_nan FROM metrics ORDER BY timestamp, rowid"
            ):
                if run_id not in started:
                    continue
                place = f"{path}: run {run_id}, metric {str(name)[:LONGEST]!r}"
                if not isinstance(name, str):
                    raise InputError(f"{place}: its name is {type(name).__name__}; allowed: text")
                if not isinstance(step, int) or not isinstance(value, int | float):
                    raise InputError(f"{place}: step {step!r}, value {value!r}; allowed: a whole number and a number")
                asked.memory.take(POINT, place)
                points = runs.setdefault(run_id, {}).setdefault(name, Points())
                asked.memory.limits.check_columns(len(runs[run_id]), place)
                points.add(checked_step(step, place), math.nan if is_nan else _unbounded(value))
    except sqlite3.Error as error:
        raise InputError(f"{path}: not a database of MLflow ({error})") from None
    logs = []
    for run_id in sorted(runs, key=lambda found: (started[found], found)):
        metrics = runs[run_id]
        choice = choose(list(metrics), asked.mapping, f"{path} (run {run_id})", has_step=False)
        points_of = {target: metrics[key] for key, target in choice.signals.items()}
        logs.append(Log(run_id, "mlflow", [path], choice, points_of))
    return logs


def _check_tables(database: sqlite3.Connection, path: Path) -> None:
    """InputError where what is read is no table: a view may have rows without end, and a virtual one runs code."""
    kinds = dict(
        database.execute("SELECT name, type || ' ' || sql FROM sqlite_master WHERE name IN ('runs', 'metrics')")
    )
    for name in ("runs", "metrics"):
        if not re.match(r"table CREATE\s+TABLE\s", str(kinds.get(name)), re.IGNORECASE):
            raise InputError(f"{path}: not a database of MLflow (no table {name!r})")


def _started(database: sqlite3.Connection, path: Path, memory: Memory) -> dict[str, int]:
    """When each run began that was not deleted."""
    started: dict[str, int] = {}
    for run_id, stage, start in database.execute("SELECT run_uuid, lifecycle_stage, start_time FROM runs"):
        if not isinstance(run_id, str) or not isinstance(start, int | None):
            raise InputError(f"{path}: run {str(run_id)[:LONGEST]!r}, start {start!r}; allowed: text, a whole number")
        memory.take(ROW, str(path))
        if stage != "deleted":
            started[run_id] = -1 if start is None else start  # as SQLite sorts them
    return started


def _unbounded(value: float) -> float:
    """Infinity for what MLflow holds in its place."""
    return math.copysign(math.inf, value) if abs(value) >= sys.float_info.max else float(value)

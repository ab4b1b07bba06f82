"""MLflow: a run's folder of the file store, folders of such, or the database `mlflow.db` of SQLite.

File store (its layout as MLflow's `FileStore` writes it): RUN/metrics/KEY, one line a point with time
stamp, value and step. Database: the tables `runs` and `metrics`; it has no NaN, but marks one, and
holds infinity as the largest double. Both are read without MLflow. Deleted runs are left out.
"""

import math
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.log import Asked, Log, Points, checked_step
from trainwreck.evaluation.logs.names import choose
from trainwreck.evaluation.logs.numbers import Numbers
from trainwreck.evaluation.logs.text import read_text

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
        if "lifecycle_stage: deleted" in read_text(folder / "meta.yaml").splitlines():
            continue
        files = sorted(file for file in (folder / "metrics").rglob("*") if file.is_file())
        keys = {file.relative_to(folder / "metrics").as_posix(): file for file in files}
        if not keys:
            continue
        choice = choose(list(keys), asked.mapping, str(folder), has_step=False)
        points = {target: _points_of(keys[key]) for key, target in choice.signals.items()}
        name = folder.name if folder != path else ""
        logs.append(Log(name, "mlflow", [folder / "meta.yaml", *files], choice, points))
    return logs


def _points_of(file: Path) -> Points:
    points, numbers = Points(), Numbers()
    for number, line in enumerate(read_text(file).splitlines(), start=1):
        place = f"{file}, line {number}"
        words = line.split()
        if len(words) < 3:  # a data set's name and digest may follow
            raise InputError(f"{place}: {line[:40]!r} is not allowed; allowed: a time stamp, a value and a step")
        value, step = numbers.value(words[1], place), numbers.step(words[2], place)
        if value is not None and step is not None:
            points.add(checked_step(step, place), value)
    return points


def _from_database(path: Path, asked: Asked) -> list[Log]:
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute(
                "SELECT r.run_uuid, m.key, m.step, m.value, m.is_nan FROM runs r JOIN metrics m USING (run_uuid) "
                "WHERE r.lifecycle_stage != 'deleted' ORDER BY r.start_time, r.run_uuid, m.timestamp, m.rowid"
            ).fetchall()
    except sqlite3.Error as error:
        raise InputError(f"{path}: not a database of MLflow ({error})") from None
    runs: dict[str, dict[str, Points]] = {}
    for run_id, key, step, value, is_nan in rows:
        points = runs.setdefault(run_id, {}).setdefault(key, Points())
        checked_step(step, f"{path}: run {run_id}, metric {key!r}")
        points.add(step, math.nan if is_nan else _unbounded(value))
    logs = []
    for run_id, metrics in runs.items():
        choice = choose(list(metrics), asked.mapping, f"{path} (run {run_id})", has_step=False)
        points_of = {target: metrics[key] for key, target in choice.signals.items()}
        logs.append(Log(run_id, "mlflow", [path], choice, points_of))
    return logs


def _unbounded(value: float) -> float:
    """Infinity for what MLflow holds in its place."""
    return math.copysign(math.inf, value) if abs(value) >= sys.float_info.max else float(value)

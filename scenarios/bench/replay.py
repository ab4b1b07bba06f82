"""Speed of opening a data set and of replaying telemetry, on the sample that ships with the package."""

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trainwreck.evaluation.dataset.dataset import DataSet, load, write_manifest, write_runs
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.dataset.schema import SIGNALS
from trainwreck.evaluation.dataset.trace import SCALARS
from trainwreck.evaluation.detectors.base import Context, Detector, Row
from trainwreck.evaluation.files import copy
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.replay import replay
from trainwreck.scenarios.bench.table import Bars, Limit, Table
from trainwreck.scenarios.bench.turns import processor_seconds, quartiles

ROUNDS = 9
RUNS = 10_000
PEER = "pyarrow's own rows, from disk"
SCALAR, ALL = "Arrow decodes the scalar columns, no rows", "Arrow decodes all columns, no rows"
NOTHING, ONE, EVERY = (f"replay from disk, {what} looked at" for what in ("nothing", "one signal", "every signal"))
# What a replay reads of the files, and so can't be faster than.
FLOORS = {NOTHING: SCALAR, ONE: SCALAR, EVERY: ALL, PEER: ALL}
SCALAR_COLUMNS = ["run_id", "step", *SCALARS]
COLUMNS = ("what", "seconds (median)", "runs or rows/s (median)", "quartiles of the seconds")


class Silent(Detector):
    """Looks at nothing."""

    def reset(self, context: Context | None) -> None:
        """Nothing to forget."""

    def update(self, row: Row) -> bool:
        """No alarm."""
        return False


class OneSignal(Silent):
    """Looks at the loss, as most detectors do."""

    def update(self, row: Row) -> bool:
        """Alarm over a level that no run reaches."""
        return bool(row["loss"] > 1e9)


class WholeRow(Silent):
    """Takes every signal."""

    def update(self, row: Row) -> bool:
        """No alarm."""
        return not dict(row)


def loading(tick: Tick) -> Table:
    """Seconds to open a data set of many runs, and rows a second through a detector."""
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder), load(sample())
        _write_runs(large, small, RUNS)
        rows = int((small.runs["last_step"] + 1).sum())
        traces = list(small.traces())
        subjects: dict[str, tuple[Callable[[], object], int]] = {
            f"open, {RUNS:,} runs": (lambda: load(large, verify=False), RUNS),
            f"open with checksums, {RUNS:,} runs": (lambda: load(large), RUNS),
            SCALAR: (lambda: decoded(small.path, SCALAR_COLUMNS), rows),
            ALL: (lambda: decoded(small.path, None), rows),
            PEER: (lambda: sum(1 for _ in _plain_rows(small.path)), rows),
        }
        for detector, name in ((Silent, NOTHING), (OneSignal, ONE), (WholeRow, EVERY)):
            subjects[name] = (_replayed(small, detector), rows)
        subjects["replay from memory, one signal looked at"] = (lambda: [replay(OneSignal, t) for t in traces], rows)
        seconds = processor_seconds({name: work for name, (work, _) in subjects.items()}, ROUNDS, tick)
    return Table(
        name="bench/replay",
        title="Opening a data set, and replaying telemetry, one core",
        how=(
            f"{ROUNDS} rounds of each, in turn, one process; seconds are of the processor. Opened: a runs table of "
            f"{RUNS:,} rows with the labels and configurations of the shipped sample under new ids, and the sample's "
            f"telemetry files. Replayed: the sample, {len(traces)} runs and {rows:,} rows of {len(SIGNALS)} signals, "
            "each row through `replay` under the full profile, in the order in which a scorecard takes them. The peer "
            "reads the same files and makes a dict of each row (`to_pylist`)."
        ),
        command="trainwreck bench replay --record",
        columns=COLUMNS,
        rows=tuple(_row(name, seconds[name], count) for name, (_, count) in subjects.items()),
        picture="replay.png",
        bars=Bars(COLUMNS[2], (PEER, SCALAR, ALL), log=True),
        limit=_limit(seconds, rows),
    )


def _row(name: str, seconds: np.ndarray, count: int) -> tuple[Any, ...]:
    middle = float(np.median(seconds))
    return name, middle, round(count / middle), quartiles(seconds)


def _limit(seconds: dict[str, np.ndarray], rows: int) -> Limit:
    """Every way through the files against decoding what it reads of them. rows: that each shows."""
    return Limit(
        text=(
            "What shows rows can't be faster than the decoding of the columns that it reads, by Arrow, to arrays and "
            "not to Python's objects: the scalar ones where no list is looked at, all of them otherwise. A ratio is "
            "the median over rounds of the ratio within a round. What is left beside decoding is a call of the "
            "detector and two readings of the clock a row, and an object of Python for every number of a signal that "
            "is looked at, elements of lists included."
        ),
        columns=("what", "us a row", "decoding alone, us a row", "x decoding alone"),
        rows=tuple(
            (
                name,
                1e6 * float(np.median(seconds[name])) / rows,
                1e6 * float(np.median(seconds[floor])) / rows,
                float(np.median(seconds[name] / seconds[floor])),
            )
            for name, floor in FLOORS.items()
        ),
    )


def _replayed(data: DataSet, detector: type[Silent]) -> Callable[[], object]:
    def run() -> object:
        opened = DataSet(data.path, data.manifest, data.runs)
        return [replay(detector, opened.trace(run_id)) for run_id in opened.by_file()]

    return run


def _plain_rows(root: Path) -> Iterator[dict[str, Any]]:
    for file in _files(root):
        yield from pq.ParquetFile(file).read().to_pylist()


def decoded(root: Path, columns: list[str] | None) -> list[pa.Table]:
    """Columns of the telemetry files under a folder, all where None, on one core."""
    return [pq.ParquetFile(file).read(columns, use_threads=False) for file in _files(root)]


def _files(root: Path) -> list[Path]:
    return sorted((root / "telemetry").rglob("*.parquet"))


def _write_runs(root: Path, small: DataSet, count: int) -> None:
    """A data set of `count` runs under `root`: those of `small` again and again, under new ids and seeds."""
    rows = pq.read_table(small.path / "runs.parquet").to_pylist()
    for name in {row["file"] for row in rows}:
        copy(small.path / name, root / name)
    many = []
    for i in range(count):
        row = rows[i % len(rows)]
        spec = json.dumps(json.loads(row["spec"]) | {"seed": i}, sort_keys=True)
        many.append(row | {"run_id": f"r{i:012x}", "seed": i, "spec": spec})
    write_runs(root, many)
    write_manifest(root, {})

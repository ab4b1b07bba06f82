"""Speed of opening a data set and of replaying telemetry, on the sample that ships with the package."""

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from trainwreck.evaluation.dataset import DataSet, load, write_manifest, write_runs
from trainwreck.evaluation.files import copy
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.protocol import Context, Detector, Row
from trainwreck.evaluation.replay import replay
from trainwreck.evaluation.schema import SIGNALS
from trainwreck.evaluation.shipped import sample
from trainwreck.scenarios.bench.table import Table

ROUNDS = 9
RUNS = 10_000


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
            "pyarrow's own rows, from disk": (lambda: sum(1 for _ in _plain_rows(small.path)), rows),
        }
        for detector, name in ((Silent, "nothing"), (OneSignal, "one signal"), (WholeRow, "every signal")):
            subjects[f"replay from disk, {name} looked at"] = (_replayed(small, detector), rows)
        subjects["replay from memory, one signal looked at"] = (lambda: [replay(OneSignal, t) for t in traces], rows)
        seconds = _rounds(subjects, tick)
    return Table(
        name="bench-load",
        title="Opening a data set, and replaying telemetry, one core",
        how=(
            f"{ROUNDS} rounds of each, in turn, one process; seconds are of the processor. Opened: a runs table of "
            f"{RUNS:,} rows with the labels and configurations of the shipped sample under new ids, and the sample's "
            f"telemetry files. Replayed: the sample, {len(traces)} runs and {rows:,} rows of {len(SIGNALS)} signals, "
            "each row through `replay` under the full profile, in the order in which a scorecard takes them. The peer "
            "reads the same files and makes a dict of each row (`to_pylist`)."
        ),
        command="trainwreck bench load --record",
        columns=("what", "seconds (median)", "runs or rows/s (median)", "quartiles of the seconds"),
        rows=tuple(_row(name, seconds[name], count) for name, (_, count) in subjects.items()),
    )


def _row(name: str, seconds: np.ndarray, count: int) -> tuple[Any, ...]:
    low, middle, high = np.quantile(seconds, (0.25, 0.5, 0.75))
    return name, float(middle), round(count / float(middle)), f"{low:.3f} to {high:.3f}"


def _replayed(data: DataSet, detector: type[Silent]) -> Callable[[], object]:
    def run() -> object:
        opened = DataSet(data.path, data.manifest, data.runs)
        return [replay(detector, opened.trace(run_id)) for run_id in opened.by_file()]

    return run


def _plain_rows(root: Path) -> Iterator[dict[str, Any]]:
    for file in sorted((root / "telemetry").rglob("*.parquet")):
        yield from pq.ParquetFile(file).read().to_pylist()


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


def _rounds(subjects: dict[str, tuple[Callable[[], object], int]], tick: Tick) -> dict[str, np.ndarray]:
    """Processor seconds of each round of each subject, [ROUNDS]; one round before them counts for nothing."""
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    for done in range(-1, ROUNDS):
        for name, (work, _) in subjects.items():
            start = process_time()
            work()
            if done >= 0:
                seconds[name].append(process_time() - start)
        tick(done + 1, ROUNDS, "round")
    return {name: np.array(taken) for name, taken in seconds.items()}

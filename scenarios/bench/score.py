"""From telemetry to a scorecard, against TSB-AD's metrics on the same scores."""

import json
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from trainwreck.evaluation.constants import RESAMPLES
from trainwreck.evaluation.dataset.dataset import DataSet, load, read_runs, write_manifest, write_runs
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.dataset.schema import FAILURES
from trainwreck.evaluation.dataset.trace import SCALARS
from trainwreck.evaluation.detectors.base import Context, Detector, Row
from trainwreck.evaluation.files import write_parquet
from trainwreck.evaluation.leaderboard.rescore import alarm_files, keep_alarms, rescore
from trainwreck.evaluation.leaderboard.run import BLIND, score
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.alarms import Alarms
from trainwreck.evaluation.replay.replay import replay
from trainwreck.evaluation.scoring.reference import baseline
from trainwreck.evaluation.scoring.scorecard import measure
from trainwreck.scenarios.bench.table import Bars, Goal, Limit, Table
from trainwreck.scenarios.bench.timing import processor_seconds, quartiles
from trainwreck.scenarios.training.environment import cores

ROUNDS = 5
COPIES = 48  # of the sample: as many runs as the plan `standard` has
DETECTOR = "zclip"
GOAL = 200
APART = 10_000  # seeds between two copies, so that their runs are resampled as runs of their own

PEER = "TSB-AD's get_metrics"
METRICS = "TSB_AD.evaluation.metrics"
LEFT_OUT = (
    "TSB-AD is left out: it is not installed; `pip install --no-deps TSB-AD` (its metrics need no more than is here)."
)
SCALAR_COLUMNS = ["run_id", "step", *SCALARS]
COLUMNS = ("what", "runs", "rows", "ms a 1,000 rows (median)", "quartiles")


class Silent(Detector):
    """Looks at nothing."""

    def reset(self, context: Context | None) -> None:
        """Nothing to forget."""

    def update(self, row: Row) -> bool:
        """No alarm."""
        return False


def against_tsb_ad(tick: Tick) -> Table:
    """Milliseconds a 1,000 rows of scoring one detector, few and many runs, and of the peer."""
    busy = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        small, many = load(sample()), copied(Path(folder) / "many", load(sample()), COPIES)
        card = score(DETECTOR, many)
        stored = keep_alarms(Path(folder) / "alarms", many, [card])
        alarms = {one.run_id: one for one in card.alarms}
        series = labelled(small, score(DETECTOR, small).alarms)
        few, rows = _rows(small.runs), _rows(many.runs)
        names = Names(len(small), len(many))
        # What is done, on how many runs, and on how many rows.
        subjects: dict[str, tuple[Callable[[], object], int, int]] = {
            names.few: (lambda: score(DETECTOR, opened(small)), len(small), few),
            names.many: (lambda: score(DETECTOR, opened(many)), len(many), rows),
            names.stored: (lambda: rescore(many, alarm_files(stored)), len(many), rows),
            names.metrics: (lambda: _metrics(many.runs, alarms), len(many), rows),
            names.shown: (lambda: _shown(opened(many)), len(many), rows),
            names.decoded: (lambda: decoded(many.path, SCALAR_COLUMNS), len(many), rows),
        }
        peer = peer_metrics()
        if peer is not None:
            subjects[PEER] = (lambda: [peer(*one) for one in series], len(series), sum(len(s) for s, _ in series))
        taken = processor_seconds({name: work for name, (work, _, _) in subjects.items()}, ROUNDS, tick)
    ms = {name: 1e6 * taken[name] / subjects[name][2] for name in subjects}  # of 1,000 rows
    installed = PEER in ms
    return Table(
        name="bench/score",
        title="Scoring a detector, one core, against TSB-AD's metrics on the same scores",
        how=how(len(series), busy, installed),
        command="trainwreck bench score --record",
        columns=(*COLUMNS, f"x {PEER}") if installed else COLUMNS,
        rows=tuple(
            (name, runs, rows, float(np.median(ms[name])), quartiles(ms[name]), *_ratio(ms, name))
            for name, (_, runs, rows) in subjects.items()
        ),
        picture="score.png",
        bars=Bars(COLUMNS[3], (PEER,), log=True),
        limit=limit(ms, names),
        goals=tuple(Goal(names.many, PEER, GOAL, ratio) for ratio in _ratio(ms, names.many)),
    )


class Names:
    """Of the subjects, with the number of runs where there are few, and many."""

    def __init__(self, few: int, many: int) -> None:
        self.few = f"files to scorecard, {few:,} runs"
        self.many = f"files to scorecard, {many:,} runs"
        self.stored = "stored alarms to scorecard"
        self.metrics = "the metrics alone, alarms in memory"
        self.shown = "every row shown to a detector that reads nothing"
        self.decoded = "scalar columns decoded by Arrow, no rows"


def how(series: int, busy: float, installed: bool) -> str:
    """How it was taken. series: that the peer scored. installed: whether the peer is."""
    peer = (
        f" The peer gets the scores of the same detector, {series} runs of the sample that have an onset after their "
        "first row, one call a run, with 0 before the onset and 1 from it on (it takes no series of one label), and "
        "settings as they are: nine metrics of a series each (AUC, VUS, F1 by point, event and range, with the best "
        "threshold of each run), without any interval and without replaying anything."
        if installed
        else f" {LEFT_OUT}"
    )
    return (
        f"{ROUNDS} rounds of each, in turn, one process; seconds are of the processor. Scored: `{DETECTOR}` under the "
        f"full profile, on the shipped sample and on {COPIES} copies of it under new ids and seeds. Files to "
        "scorecard: telemetry is opened, each row shown to the detector, and every metric of docs/scoring.md is taken, "
        f"with intervals of {RESAMPLES:,} resamples, blind policies and curves; checksums and the start of Python are "
        f"not in it.{peer} A ratio is the peer's time for 1,000 rows over the row's, the median over rounds of the "
        "ratio within a round. Processes that wanted to run at the beginning (load average): "
        f"{busy:.1f} on {cores()} cores."
    )


def limit(ms: dict[str, np.ndarray], names: Names) -> Limit:
    """What of the whole each part takes, and what a scorer without it could reach."""
    whole = ms[names.many]
    parts = [names.many, names.metrics, names.shown, names.decoded]
    text = [
        "The first row is the whole; the others were measured by themselves. No scorer that shows rows to a detector, "
        "one by one, in Python is faster than the third, and none that reads the files than the last. What is over "
        "them is the detector's own arithmetic, the check of what it says, and the metrics. Of these the resamples "
        "cost the least a row where runs are many.",
    ]
    if PEER in ms:
        few, shown = (float(np.median(ms[PEER] / ms[name])) for name in (names.few, names.shown))
        text.append(
            f"On the sample alone it is {few:.0f} x the peer. Showing the rows and nothing else would be {shown:.0f} x."
        )
    return Limit(
        text="\n\n".join(text),
        columns=("what", "ms a 1,000 rows", "of the whole"),
        rows=tuple((name, float(np.median(ms[name])), float(np.median(ms[name] / whole))) for name in parts),
    )


def _ratio(ms: dict[str, np.ndarray], name: str) -> tuple[float, ...]:
    return (float(np.median(ms[PEER] / ms[name])),) if PEER in ms else ()


def peer_metrics() -> Callable[[np.ndarray, np.ndarray], Any] | None:
    """TSB-AD's metrics of a series, scores [T] and labels [T]; None where it is not installed."""
    try:
        metrics = import_module(METRICS).get_metrics
    except ModuleNotFoundError:
        return None

    def scored(scores: np.ndarray, labels: np.ndarray) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of precision without a positive, at its own thresholds
            return metrics(scores, labels)

    return scored


def labelled(data: DataSet, alarms: Sequence[Alarms]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Scores [T] and labels [T], 1 from the onset on, of the failing runs that have rows of both."""
    found = []
    for one in alarms:
        run = data.run(one.run_id)
        labels = (one.steps >= run["onset_step"]).astype(int) if run["kind"] in FAILURES else np.zeros(1, int)
        if len(set(labels.tolist())) == 2:
            found.append((one.scores, labels))
    return found


def copied(root: Path, small: DataSet, copies: int) -> DataSet:
    """A data set of so many copies of each run of another one, each copy under ids and seeds of its own."""
    rows = read_runs(small.path).to_pylist()
    everything = []
    for copy in range(copies):
        for name in sorted({row["file"] for row in rows}):
            table = pq.read_table(small.path / name)
            ids = pa.array([_id(id, copy) for id in table.column("run_id").to_pylist()], pa.string())
            column = table.schema.get_field_index("run_id")
            write_parquet(root / _file(name, copy), [table.set_column(column, table.schema.field(column), ids)])
        everything += [_copy(row, copy) for row in rows]
    write_runs(root, everything)
    write_manifest(root, {})
    return load(root)


def _copy(row: dict[str, Any], copy: int) -> dict[str, Any]:
    seed = row["seed"] + APART * copy
    spec = json.dumps(json.loads(row["spec"]) | {"seed": seed}, sort_keys=True)
    twin = _id(row["twin_id"], copy) if row["twin_id"] else ""
    new = {"run_id": _id(row["run_id"], copy), "twin_id": twin, "seed": seed, "spec": spec}
    return row | new | {"file": _file(row["file"], copy)}


def _id(run_id: str, copy: int) -> str:
    return f"{run_id}-{copy}"


def _file(name: str, copy: int) -> str:
    path = Path(name)
    return path.with_name(f"{path.stem}-{copy}{path.suffix}").as_posix()


def decoded(root: Path, columns: list[str] | None) -> list[pa.Table]:
    """Columns of the telemetry files under a folder, all where None, on one core."""
    files = sorted((root / "telemetry").rglob("*.parquet"))
    return [pq.ParquetFile(file).read(columns, use_threads=False) for file in files]


def opened(data: DataSet) -> DataSet:
    """The same with no file read yet."""
    return DataSet(data.path, data.manifest, data.runs)


def _metrics(runs: pd.DataFrame, alarms: dict[str, Alarms]) -> object:
    return measure(DETECTOR, BLIND, {}, alarms, baseline(runs))


def _shown(data: DataSet) -> int:
    return sum(replay(Silent, data.trace(run_id)).rows for run_id in data.by_file())


def _rows(runs: pd.DataFrame) -> int:
    return int((runs["last_step"] + 1).sum())

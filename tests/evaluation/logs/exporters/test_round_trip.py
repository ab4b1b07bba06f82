"""What is exported is what was recorded, by the format's own library and by our reader."""

import csv
import json
import math
import shutil
import socket
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.dataset.schema import SIGNALS
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.exporters import EXPORTERS, export
from trainwreck.evaluation.logs.exporters.series import series
from trainwreck.evaluation.logs.imported import import_logs
from trainwreck.evaluation.logs.readers import read
from trainwreck.evaluation.logs.rules import to_trace

STEPS = 24
HARD = np.array(
    [np.nan, np.inf, -np.inf, 1e-45, np.finfo(np.float32).max, -np.finfo(np.float32).tiny, 0.1, 1 / 3, 16777217.0],
    np.float32,
)
RUNS = ("faulty", "healthy")
Points = dict[str, dict[int, float]]


@pytest.fixture(scope="module")
def hard(tmp_path_factory: Any, write_data_set: Any, make_trace: Any, make_run: Any) -> DataSet:
    """Two runs whose every signal has the values that formats get wrong."""
    traces = [make_trace(run_id, seed=i, steps=STEPS) for i, run_id in enumerate(RUNS)]
    for k, signal in enumerate(SIGNALS):
        values = traces[0].signals[signal.name]
        values[5:14] = HARD if values.ndim == 1 else np.roll(HARD, k)[:, None]
    traces[0].signals["fresh_loss"][:] = np.nan
    traces[0].signals["validation_loss"][:] = np.nan  # one that was evaluated, and gave it
    rows = [
        make_run(
            "faulty", kind="failing", scenario="high_lr", cause="high_lr", family="optimisation", onset_step=7,
            visible_step=9, last_step=STEPS - 1, causes='{"high_lr": 7}', seed=3,
        ),
        make_run("healthy", last_step=STEPS - 1),
    ]  # fmt: skip
    return write_data_set(tmp_path_factory.mktemp("hard"), rows, traces)


@pytest.fixture(scope="module")
def exported(hard: DataSet, tmp_path_factory: Any) -> dict[str, tuple[Path, dict[str, str]]]:
    """Format to the folder, and run id to where it lies in there."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))  # no library shall write to the user's
        for name in EXPORTERS:
            folder = tmp_path_factory.mktemp("out") / name
            found[name] = folder, export(hard, name, folder)
    return found


def points_of(trace: Trace) -> Points:
    return {one.name: dict(zip(one.steps.tolist(), one.values.tolist(), strict=True)) for one in series(trace)}


def assert_same(found: Points, expected: Points) -> None:
    assert set(found) == set(expected)
    for name, points in expected.items():
        assert list(found[name]) == list(points), name
        mine = np.array(list(found[name].values()))
        assert mine.astype(np.float32).astype(np.float64).tobytes() == mine.tobytes() or np.isnan(mine).any()
        np.testing.assert_array_equal(mine, np.array(list(points.values())), name)


def test_a_series_has_the_points_that_were_logged(hard: DataSet) -> None:
    faulty, healthy = (points_of(hard.trace(run_id)) for run_id in RUNS)
    assert list(faulty["validation_loss"]) == list(healthy["validation_loss"]) == [19]
    assert math.isnan(faulty["validation_loss"][19])
    assert "fresh_loss" not in faulty
    assert list(faulty["loss"]) == list(faulty["layer_grad_norm/3"]) == list(range(STEPS))
    assert len(faulty) == sum(v[0].size for v in hard.trace("faulty").signals.values()) - 1


def by_tensorboard(folder: Path, where: dict[str, str]) -> Iterator[tuple[str, Points]]:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    for run_id, name in where.items():
        points: Points = {}
        for event in EventFileLoader(str(folder / name)).Load():
            for value in event.summary.value:
                points.setdefault(value.tag, {})[event.step] = float(make_ndarray(value.tensor))
        yield run_id, points


def by_mlflow(folder: Path, where: dict[str, str]) -> Iterator[tuple[str, Points]]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    for run_id, name in where.items():
        points = {}
        for key in client.get_run(name.rpartition(" ")[2]).data.metrics:
            history = sorted(client.get_metric_history(name.rpartition(" ")[2], key), key=lambda metric: metric.step)
            points[key] = {metric.step: _unbounded(metric.value) for metric in history}
        yield run_id, points


def _unbounded(value: float) -> float:
    return math.copysign(math.inf, value) if abs(value) > 1e308 else value  # the database has no infinity


def by_pandas(folder: Path, where: dict[str, str]) -> Iterator[tuple[str, Points]]:
    for run_id, name in where.items():
        table = pd.read_csv(folder / name, keep_default_na=False, na_values=[""], dtype=str).set_index("step")
        yield (
            run_id,
            {
                str(key): {int(step): float(np.float32(cell)) for step, cell in column.dropna().items()}
                for key, column in table.items()
            },
        )


LIBRARIES = {"tensorboard": by_tensorboard, "mlflow": by_mlflow, "trackio": by_pandas}


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_formats_own_library_reads_every_point(name: str, exported: Any, hard: DataSet) -> None:
    read_runs = dict(LIBRARIES[name](*exported[name]))
    assert set(read_runs) == set(RUNS)
    for run_id, found in read_runs.items():
        assert_same(found, points_of(hard.trace(run_id)))


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "mlflow", "trackio"])
def test_our_reader_reads_every_point(name: str, exported: Any, hard: DataSet) -> None:
    folder, where = exported[name]
    for run_id in RUNS:
        path = folder if name == "mlflow" else folder / where[run_id]
        logs = read(folder / "mlflow.db" if name == "mlflow" else path)
        log = logs[RUNS.index(run_id)] if name == "mlflow" else logs[0]
        trace, account = to_trace(log, run_id)
        assert_same(points_of(trace), points_of(hard.trace(run_id)))
        assert all(facts["repeated"] == facts["overflowed"] == 0 for facts in account.values())


def test_an_exported_set_comes_back_as_one(exported: Any, hard: DataSet, tmp_path: Path) -> None:
    folder, where = exported["trackio"]
    entries = import_logs([folder / name for name in where.values()], tmp_path / "back")
    again = load(tmp_path / "back")
    for entry, run_id in zip(entries, RUNS, strict=True):
        assert_same(points_of(again.trace(entry["run_id"])), points_of(hard.trace(run_id)))


def test_runs_that_were_deleted_are_left_out(exported: Any, tmp_path: Path) -> None:
    folder, where = exported["mlflow"]
    copied = Path(shutil.copy(folder / "mlflow.db", tmp_path))
    with closing(sqlite3.connect(copied)) as database, database:
        run = where["faulty"].rpartition(" ")[2]
        database.execute("UPDATE runs SET lifecycle_stage = 'deleted' WHERE run_uuid = ?", (run,))
    assert [log.name for log in read(copied)] == [where["healthy"].rpartition(" ")[2]]


def test_timeeval_leaves_out_what_is_neither_normal_nor_anomalous(
    tmp_path: Path, make_run: Any, make_trace: Any, write_data_set: Any
) -> None:
    fault = {"scenario": "high_lr", "cause": "high_lr", "onset_step": 2, "last_step": 9}
    runs = [make_run("a", kind="not shown", **fault), make_run("b", kind="failing", **fault)]
    fault["causes"] = json.dumps({"high_lr": 2, "labels_shifted": 5})  # the first may be cured at step 3
    runs.append(make_run("c", kind="cured", cure_step=7, **fault))
    data = write_data_set(tmp_path, runs, [make_trace(name, steps=10) for name in "abc"])
    assert export(data, "timeeval", tmp_path / "out") == {"b": "b.csv"}
    with (tmp_path / "out" / "runs.csv").open(encoding="utf-8") as file:
        assert [row["run_id"] for row in csv.DictReader(file)] == ["b"]
    assert set(export(data, "tensorboard", tmp_path / "board")) == {"a", "b", "c"}
    with pytest.raises(InputError, match="no run is left, since each has steps at which it is not known"):
        export(data, "timeeval", tmp_path / "none", ["a", "c"])


def test_timeeval_has_a_label_a_step_and_no_empty_cell(exported: Any, hard: DataSet) -> None:
    folder, where = exported["timeeval"]
    for run_id in RUNS:
        table = pd.read_csv(folder / where[run_id], keep_default_na=False, dtype=str)
        trace = hard.trace(run_id)
        whole = [one for one in series(trace) if len(one.steps) == STEPS]
        assert list(table.columns) == ["timestamp", *(one.name for one in whole), "is_anomaly"]
        assert table["timestamp"].astype(int).tolist() == list(range(STEPS))
        assert not (table == "").any(axis=None)
        for one in whole:
            np.testing.assert_array_equal(table[one.name].astype(np.float32), one.values, one.name)
        wrong = table["is_anomaly"].astype(int).tolist()
        assert wrong == ([0] * 7 + [1] * (STEPS - 7) if run_id == "faulty" else [0] * STEPS)


@pytest.mark.parametrize("name", EXPORTERS)
def test_what_is_true_of_the_runs_lies_beside(name: str, exported: Any) -> None:
    folder, where = exported[name]
    with (folder / "runs.csv").open(encoding="utf-8", newline="") as file:
        faulty, healthy = csv.DictReader(file)
    assert [faulty[name] for name in ("run_id", "kind", "cause", "onset_step")] == ["faulty", "failing", "high_lr", "7"]
    assert (healthy["kind"], healthy["onset_step"]) == ("healthy", "")
    assert [faulty["file"], healthy["file"]] == list(where.values())


def test_labels_travel_in_the_tools_own_place(exported: Any) -> None:
    from mlflow.tracking import MlflowClient
    from wandb.proto.wandb_internal_pb2 import Record

    from trainwreck.evaluation.logs.readers.wandb import _records

    folder, where = exported["mlflow"]
    tags = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}").get_run(where["faulty"].rpartition(" ")[2]).data.tags
    assert (tags["kind"], tags["onset_step"]) == ("failing", "7")
    folder, where = exported["wandb"]
    config = {}
    for content in _records(folder / where["faulty"], Counter()):
        record = Record.FromString(content)
        if record.WhichOneof("record_type") == "run":
            config |= {update.key: update.value_json for update in record.run.config.update}
            assert record.run.host == ""
    assert (config["kind"], config["onset_step"]) == ('"failing"', "7")


def test_nothing_of_this_machine_is_exported(exported: Any) -> None:
    for folder, _ in exported.values():
        for file in folder.rglob("*"):
            assert socket.gethostname() not in file.name
            content = file.read_bytes() if file.is_file() else b""
            assert b".tmp-" not in content, f"{file} names the folder that it was made in"


def test_an_event_file_has_the_same_bytes_again(exported: Any, hard: DataSet, tmp_path: Path) -> None:
    folder, where = exported["tensorboard"]
    export(hard, "tensorboard", tmp_path / "again", ["faulty"])
    assert (tmp_path / "again" / where["faulty"]).read_bytes() == (folder / where["faulty"]).read_bytes()
    assert not (tmp_path / "again" / "healthy").exists()


def test_what_cannot_be_exported_leaves_nothing(hard: DataSet, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'trackio'"):
        export(hard, "tracio", tmp_path / "out")
    with pytest.raises(InputError, match="did you mean 'faulty'"):
        export(hard, "trackio", tmp_path / "out", ["faulti"])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="is not empty"):
        export(hard, "trackio", tmp_path / "full")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["full", "thesis"]


def test_an_offline_run_that_was_cut_off_is_read_to_there(exported: Any, tmp_path: Path) -> None:
    folder, where = exported["wandb"]
    content = (folder / where["faulty"]).read_bytes()
    file = tmp_path / "cut.wandb"
    lengths = []
    for size in (len(content), len(content) // 2, len(content) // 2 + 3):
        file.write_bytes(content[:size])
        (log,) = read(file)
        lengths.append(len(to_trace(log, "r")[0]))
        assert log.rules == ({} if size == len(content) else {"cut off last record": 1})
    assert lengths[0] == STEPS
    assert 0 < lengths[1] <= lengths[2] < STEPS
    file.write_bytes(content[:13] + b"\x09" + content[14:])  # the kind of the first record
    with pytest.raises(InputError, match="damaged at byte 7"):
        read(file)
    file.write_bytes(content[:16] + bytes(64) + content[80:])
    with pytest.raises(InputError, match=r"record 1 is not one of W&B|damaged|no history"):
        read(file)

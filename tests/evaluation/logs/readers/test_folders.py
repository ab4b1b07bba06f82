"""Lightning, MLflow's file store, exports of W&B: what they leave, and what tells them apart."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.readers import FORMATS, parse_mapping, read
from trainwreck.evaluation.logs.readers.formats import detect
from trainwreck.evaluation.logs.rules import to_trace


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


METRICS = "epoch,lr-AdamW,step,train_loss,val_loss\n0,0.1,9,,\n0,,9,2.5,\n0,,19,2.0,\n0,,19,,2.25\n"


def test_lightnings_rows_of_a_step_are_one(tmp_path: Path, read_one: Any) -> None:
    put(tmp_path / "version_0" / "metrics.csv", METRICS)
    for path in (tmp_path, tmp_path / "version_0", tmp_path / "version_0" / "metrics.csv"):
        trace, account, log = read_one(path)
        assert log.format == "lightning"
        assert trace.steps.tolist() == [9, 19]
        assert trace["loss"].tolist() == [2.5, 2.0]
        assert trace.evaluated.tolist() == [False, True]
        assert trace.logged["lr"].tolist() == [True, False]
        assert account["loss"]["repeated"] == 0
    put(tmp_path / "version_1" / "metrics.csv", METRICS)
    assert [log.name for log in read(tmp_path)] == ["version_0", "version_1"]


def mlflow_run(folder: Path, *, deleted: bool = False, **metrics: str) -> Path:
    put(folder / "meta.yaml", f"artifact_uri: x\nlifecycle_stage: {'deleted' if deleted else 'active'}\n")
    (folder / "metrics").mkdir()
    for key, lines in metrics.items():
        put(folder / "metrics" / key.replace("__", "/"), lines)
    return folder


def test_mlflows_file_store(tmp_path: Path, read_one: Any) -> None:
    run = mlflow_run(tmp_path / "0" / "abc", train__loss="5 2.5 0\n6 nan 10\n7 inf 20 data 12ab\n", lr="5 1e-3 0\n")
    trace, _, log = read_one(run)
    assert (log.format, log.name) == ("mlflow", "")
    assert trace.steps.tolist() == [0, 10, 20]
    assert repr(trace["loss"].tolist()) == "[2.5, nan, inf]"
    mlflow_run(tmp_path / "0" / "gone", deleted=True, loss="5 2.5 0\n")
    mlflow_run(tmp_path / "1" / "def", loss="5 2.5 0\n")
    mlflow_run(tmp_path / "1" / "empty")
    assert [log.name for log in read(tmp_path)] == ["abc", "def"]


def test_mlflows_lines_are_checked(tmp_path: Path) -> None:
    mlflow_run(tmp_path / "abc", loss="5 2.5 0\n6 2.5\n")
    with pytest.raises(InputError, match=r"loss, line 2: '6 2.5' is not allowed"):
        read(tmp_path / "abc")
    mlflow_run(tmp_path / "def", loss="5 2.5 0\n6 x 1\n")
    with pytest.raises(InputError, match=r"loss, line 2: 'x' is not a number"):
        read(tmp_path / "def")


CHART = (
    '"Step","fast - run - train/loss","fast - run - train/loss__MIN","fast - run - train/loss__MAX",'
    '"slow - train/loss","slow - train/loss__MIN","slow - train/loss__MAX"\n'
    '"0","9","9","9","8","8","8"\n"10","4","4","4","",,\n"20","NaN","NaN","NaN","6","6","6"\n'
)


def test_a_chart_of_wandb_is_a_run_for_each(tmp_path: Path) -> None:
    logs = read(put(tmp_path / "chart.csv", CHART))
    assert [(log.format, log.name) for log in logs] == [("wandb", "fast - run"), ("wandb", "slow")]
    fast, slow = (to_trace(log, "r")[0] for log in logs)
    assert repr(fast["loss"].tolist()) == "[9.0, 4.0, nan]"
    assert (slow.steps.tolist(), slow["loss"].tolist()) == ([0, 20], [8.0, 6.0])


def test_the_history_of_wandb(tmp_path: Path, read_one: Any) -> None:
    history = "_step,_runtime,_timestamp,train/loss,train/global_step\n0,1,1,9,10\n1,2,2,,\n2,3,3,NaN,20\n"
    file = put(tmp_path / "history.csv", history)
    assert read_one(file)[0].steps.tolist() == [10, 20], "the trainer's own step before W&B's counter"
    assert read_one(file, "_step=step")[0].steps.tolist() == [0, 2]
    lines = put(tmp_path / "history.jsonl", '{"_step": 3, "loss": "Infinity"}\n')
    trace, _, log = read_one(lines, format="wandb")
    assert (log.format, trace.steps.tolist(), trace["loss"].tolist()) == ("wandb", [3], [np.inf])


def test_formats_are_told_apart(tmp_path: Path) -> None:
    files = {
        "csv": put(tmp_path / "run.txt", "step,loss\n1,2\n"),
        "jsonl": put(tmp_path / "run.ndjson", "{}"),
        "lightning": put(tmp_path / "metrics.csv", "step,loss\n1,2\n"),
        "wandb": put(tmp_path / "w.csv", CHART),
        "trainer_state": put(tmp_path / "checkpoint.json", "{}"),
        "tensorboard": put(tmp_path / "events.out.tfevents.7.host", ""),
        "mlflow": mlflow_run(tmp_path / "run"),
        "text": put(tmp_path / "run.log", "iter 1: loss 2.5, time 1.25ms\n"),
    }
    assert {name: detect(path) for name, path in files.items()} == {name: name for name in files}
    assert {*files, "neptune"} == set(FORMATS)
    assert detect(put(tmp_path / "w" / "run-1.wandb", "").parent) == "wandb"


@pytest.mark.parametrize("format", FORMATS)
def test_no_format_takes_an_empty_folder_or_file(format: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", put(tmp_path / "file", "")):
        with pytest.raises(InputError) as error:
            read(path, format, {})
        assert str(path) in str(error.value)
        assert "\n" not in str(error.value)


def test_a_log_of_no_known_format_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "notes.md", "a thesis")
    with pytest.raises(InputError, match=r"no log of a known format in it; allowed: csv, jsonl"):
        read(tmp_path)
    with pytest.raises(InputError, match="no such file or folder"):
        read(tmp_path / "nowhere")
    with pytest.raises(InputError, match="did you mean 'jsonl'"):
        read(tmp_path, "json")
    (tmp_path / "not.db").write_bytes(b"SQLite format 3\x00 and no more")
    with pytest.raises(InputError, match="not a database of MLflow"):
        read(tmp_path / "not.db")
    with pytest.raises(InputError, match=r"not a \.wandb file"):
        read(put(tmp_path / "x.wandb", "nothing of the kind"))


def test_a_mapping_reaches_every_format(tmp_path: Path) -> None:
    mapping = parse_mapping(["quality=loss"])
    for path in (
        put(tmp_path / "a.csv", "step,quality\n1,2\n"),
        put(tmp_path / "b.jsonl", '{"step": 1, "quality": 2}\n'),
        mlflow_run(tmp_path / "run", quality="0 2 1\n"),
    ):
        (log,) = read(path, None, mapping)
        assert to_trace(log, "r")[0]["loss"].tolist() == [2.0]

"""From logs to a data set: what is claimed, what is kept, and what can be done with it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.dataset.schema import RUN_FIELDS, telemetry_schema
from trainwreck.evaluation.detectors.registry import builtin_detectors
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.labels.labelling import relabel
from trainwreck.evaluation.leaderboard.run import leaderboard, score
from trainwreck.evaluation.logs.imported import import_logs
from trainwreck.evaluation.logs.readers import parse_mapping
from trainwreck.evaluation.pages.report import write_report
from trainwreck.evaluation.replay.unlabelled import alarms_on

CALM = "step,loss,grad_norm,kind\n" + "".join(f"{10 * i},{4 - i / 50},1,train\n" for i in range(60))
LABELS = (
    "file,outcome,failure_step,cause,notes,cluster\n"
    "loud.csv,failed,420,lr too high,x,a\ncalm.csv,healthy,,,,\nother.csv,unknown,,,,\n"
)


def rows_with_nan() -> str:
    return CALM.replace("\n420,3.16,1,", "\n420,NaN,Inf,")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: Any) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("logs")
    texts = {"calm.csv": CALM, "loud.csv": rows_with_nan(), "labels.csv": LABELS, "dup.csv": CALM + "590,1,1,train\n"}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {name.removesuffix(".csv"): folder / name for name in texts}


@pytest.fixture(scope="module")
def imported(logs: dict[str, Path], tmp_path_factory: Any) -> DataSet:
    out = tmp_path_factory.mktemp("set") / "out"
    import_logs([logs["loud"], logs["calm"], logs["dup"]], out, labels=logs["labels"])
    return load(out)


def test_nothing_is_claimed(imported: DataSet) -> None:
    assert imported.imported
    assert list(imported.runs.columns) == [name for name, _, _ in RUN_FIELDS]
    assert imported.runs["kind"].tolist() == ["imported"] * 3
    for name in ("onset_step", "visible_step", "no_return_step", "outcome", "final_gap", "seed", "planned_steps"):
        assert imported.runs[name].isna().all(), name
    assert set(imported.runs["scenario"]) == set(imported.runs["cause"]) == set(imported.runs["split"]) == {""}
    assert imported.runs["last_step"].tolist() == [590] * 3


def test_the_manifest_says_where_it_comes_from(imported: DataSet, logs: dict[str, Path]) -> None:
    loud, calm, dup = imported.manifest["imported"]
    assert [entry["run_id"] for entry in (loud, calm, dup)] == imported.runs["run_id"].tolist()
    assert loud["files"] == {"loud.csv": hashlib.sha256(logs["loud"].read_bytes()).hexdigest()}
    assert (loud["format"], loud["step"], loud["rows"]) == ("csv", "step", 60)
    assert loud["columns"] == {"loss": "loss", "grad_norm": "grad_norm"}
    assert loud["ignored"] == {"kind": "no known signal"}
    assert loud["label"] == {"outcome": "failed", "failure_step": 420, "cause": "lr too high", "cluster": "a"}
    assert calm["label"] == {"outcome": "healthy", "failure_step": None, "cause": None, "cluster": None}
    assert dup["label"] is None
    assert dup["signals"]["loss"]["repeated"] == dup["signals"]["loss"]["conflicting"] == 1
    assert calm["signals"]["loss"]["repeated"] == 0


def test_the_telemetry_is_the_log(imported: DataSet) -> None:
    trace = imported.trace(imported.runs["run_id"].iloc[0])
    assert trace.to_table().schema.equals(telemetry_schema(), check_metadata=True)
    assert trace.steps.tolist() == list(range(0, 600, 10))
    assert np.flatnonzero(~np.isfinite(trace["loss"])).tolist() == [42]
    assert trace["grad_norm"][42] == np.inf
    assert set(trace.signals) == {"loss", "grad_norm", "validation_loss", "fresh_loss"}


def test_alarms_can_be_listed(imported: DataSet) -> None:
    found = alarms_on(imported, ["nonfinite_loss", "terminate_on_nan"])
    assert [(e["detector"], e["first_alarm"], (e["label"] or {}).get("outcome")) for e in found] == [
        ("nonfinite_loss", 420, "failed"), ("nonfinite_loss", None, "healthy"), ("nonfinite_loss", None, None),
        ("terminate_on_nan", 420, "failed"), ("terminate_on_nan", None, "healthy"), ("terminate_on_nan", None, None),
    ]  # fmt: skip
    assert {e["last_step"] for e in found} == {590}


def test_no_built_in_detector_breaks_on_a_log(imported: DataSet) -> None:
    found = alarms_on(imported, list(builtin_detectors()))
    assert {entry["status"] for entry in found} == {"ok"}
    assert {entry["rows"] for entry in found} == {60}


def test_what_needs_labels_by_experiment_is_refused(imported: DataSet, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in imported.path.rglob("*") if path.is_file()}
    for refused in (
        lambda: score("zclip", imported),
        lambda: leaderboard(imported),
        lambda: relabel(imported.path),
        lambda: write_report(imported.path, tmp_path / "page.html"),
    ):
        with pytest.raises(InputError, match="imported runs have no label by experiment"):
            refused()
    assert {path: path.read_bytes() for path in imported.path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("file,outcome\ncalm.csv,fine\n", "line 2: outcome: 'fine' is not allowed"),
        ("file,outcome,failure_step\ncalm.csv,healthy,3\n", "line 2: failure_step 3 of a healthy run"),
        ("file,outcome,failure_step\ncalm.csv,failed,3.5\n", "line 2: column 'failure_step': step '3.5'"),
        ("file,outcome,failure_step\ncalm.csv,failed,600\n", "failure_step 600 is not in "),
        ("file,outcome\ncalm.csv,failed\ncalm.csv,failed\n", "line 3: 'calm.csv' a second time"),
        ("file,what\ncalm.csv,failed\n", "no column 'outcome' or 'status'"),
        ("file,run,status\ncalm.csv,calm.csv,failed\n", "columns 'file' and 'run' are the same"),
        ("run,status,step\ncalm.csv,healthy,3\n", "line 2: step 3 of a healthy run"),
        ("file,outcome\ncalm,failed\n", "names none of these logs; allowed in its first column: calm.csv"),
    ],
)
def test_labels_that_are_refused(labels: str, message: str, logs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "said.csv").write_text(labels, encoding="utf-8")
    with pytest.raises(InputError) as error:
        import_logs([logs["calm"]], tmp_path / "out", labels=tmp_path / "said.csv")
    assert message in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["said.csv"]


def test_a_log_twice_and_a_mapping_of_nothing_are_refused(logs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the same log as"):
        import_logs([logs["calm"], logs["loud"], logs["calm"]], tmp_path / "out")
    with pytest.raises(InputError, match="--map: no log has a column 'quality'"):
        import_logs([logs["calm"]], tmp_path / "out", mapping=parse_mapping(["quality=loss"]))
    assert list(tmp_path.iterdir()) == []


def test_runs_of_one_log_are_named_and_labelled_apart(tmp_path: Path) -> None:
    for version in (0, 1):
        folder = tmp_path / "logs" / f"version_{version}"
        folder.mkdir(parents=True)
        (folder / "metrics.csv").write_text("epoch,step,train_loss\n0,1,2\n", encoding="utf-8")
    labels = tmp_path / "labels.csv"
    labels.write_text("file,outcome\nlogs/version_1,healthy\n", encoding="utf-8")
    first, second = import_logs([tmp_path / "logs"], tmp_path / "out", labels=labels)
    assert first["run_id"] != second["run_id"]
    assert (first["label"], second["label"]["outcome"]) == (None, "healthy")
    assert list(first["files"]) == ["version_0/metrics.csv"]
    assert json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))["plan"] == "imported"

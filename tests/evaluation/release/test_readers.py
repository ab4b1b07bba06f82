"""What others read a release with: pandas, pyarrow, DuckDB, Hugging Face datasets, MLCommons' Croissant; offline."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.schema import RUN_FIELDS, SIGNALS, Axis
from trainwreck.evaluation.release import release

HERE = [signal for signal in SIGNALS if signal.name != "kl"]  # no run of the small data set has a value of it
COLUMNS = ["run_id", "step", *(signal.name for signal in HERE), "split", "kind"]


def with_pandas(root: Path) -> pa.Table:
    return pa.Table.from_pandas(pd.read_parquet(root / "telemetry", dtype_backend="pyarrow"), preserve_index=False)


def with_pyarrow(root: Path) -> pa.Table:
    return pads.dataset(root / "telemetry", partitioning="hive").to_table()


def with_duckdb(root: Path) -> pa.Table:
    return duckdb.sql(f"SELECT * FROM read_parquet('{root}/telemetry/**/*.parquet')").to_arrow_table()


@pytest.mark.parametrize("read", [with_pandas, with_pyarrow, with_duckdb])
def test_every_number_and_the_folders_names(read: Any, released: Path) -> None:
    data = load(released)
    table = read(released)
    table = table.take(pa.compute.sort_indices(table, [("run_id", "ascending"), ("step", "ascending")]))
    assert sorted(table.column_names) == sorted(COLUMNS)
    ids = sorted(data.runs.index)
    assert table["run_id"].to_pylist() == [run_id for run_id in ids for _ in range(40)]
    for name in ("split", "kind"):
        assert [str(v) for v in table[name].to_pylist()[::40]] == data.runs.loc[ids, name].tolist()
    for signal in HERE:
        made = np.concatenate([data.trace(run_id)[signal.name] for run_id in ids])
        column = table[signal.name].combine_chunks()
        if signal.axis is not Axis.SCALAR:
            column = column.flatten()
        found = column.to_numpy(zero_copy_only=False).astype(np.float32)
        np.testing.assert_array_equal(found, made.ravel(), signal.name)


def test_labels_join_telemetry_in_sql(released: Path) -> None:
    counts = duckdb.sql(
        f"SELECT cause, count(*) FROM '{released}/runs.parquet' r JOIN '{released}/telemetry/**/*.parquet' t "
        "USING (run_id) WHERE t.kind = 'failing' GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    assert counts == [("corrupt_tokens", 120), ("high_lr", 120)]


def elsewhere(code: str, tmp_path: Path, *words: object) -> Any:
    """What a program of its own prints as JSON last: these libraries warn when they are imported."""
    quiet = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    quiet |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], env=os.environ | quiet, cwd=tmp_path, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


DATASETS = """
import json, sys
from datasets import get_dataset_config_names, load_dataset
root = sys.argv[1]
found = {"configs": get_dataset_config_names(root)}
for config in found["configs"]:
    splits = load_dataset(root, config, cache_dir="cache")
    found[config] = {name: len(split) for name, split in splits.items()}
    found["columns of " + config] = splits["test"].column_names
first = load_dataset(root, "telemetry", split="test", cache_dir="cache")[0]
found["first"] = {name: first[name] for name in ("run_id", "step", "loss", "head_entropy", "validation_loss")}
print(json.dumps(found))
"""


def test_hugging_face_datasets_loads_configs_and_splits(released: Path, tmp_path: Path) -> None:
    found = elsewhere(DATASETS, tmp_path, released)
    assert found["configs"] == ["runs", "telemetry"]
    assert found["runs"] == {"calibration": 4, "test": 16}
    assert found["telemetry"] == {"calibration": 160, "test": 640}
    assert found["columns of runs"] == [name for name, _, _ in RUN_FIELDS]
    assert found["columns of telemetry"] == COLUMNS[:-2]
    trace = load(released).trace(found["first"]["run_id"])
    assert found["first"]["step"] == 0
    assert found["first"]["loss"] == float(trace["loss"][0])
    assert found["first"]["head_entropy"] == trace["head_entropy"][0].tolist()
    assert found["first"]["validation_loss"] is None


CROISSANT = """
import json, sys
import mlcroissant
data = mlcroissant.Dataset(jsonld=sys.argv[1])
issues = data.metadata.ctx.issues
found = {"errors": sorted(issues.errors), "warnings": sorted(issues.warnings)}
found["version"] = str(data.metadata.ctx.conforms_to.value)
plain = lambda value: value.decode() if isinstance(value, bytes) else value
for name in ("splits", "runs"):
    found[name] = [{key: plain(value) for key, value in record.items()} for record in data.records(name)]
found["telemetry"] = {key: plain(value) for key, value in next(iter(data.records("telemetry"))).items()}
found["rai"] = {key: bool(value) for key, value in data.metadata.to_json().items() if key.startswith("rai:")}
print(json.dumps(found, default=float))
"""


def test_croissant_is_valid_and_gives_the_records(released: Path, tmp_path: Path) -> None:
    found = elsewhere(CROISSANT, tmp_path, released / "croissant.json")
    assert found["version"] == "http://mlcommons.org/croissant/1.1"
    assert found["errors"] == []
    assert found["warnings"] == []
    assert [split["splits/name"] for split in found["splits"]] == ["calibration", "test"]
    runs = load(released).runs
    assert [run["runs/run_id"] for run in found["runs"]] == runs["run_id"].tolist()
    assert [run["runs/onset_step"] for run in found["runs"]] == [None if v != v else v for v in runs["onset_step"]]
    assert set(found["runs"][0]) == {f"runs/{name}" for name, _, _ in RUN_FIELDS}
    row = found["telemetry"]
    assert set(row) == {f"telemetry/{name}" for name in COLUMNS[:-2]}
    trace = load(released).trace(row["telemetry/run_id"])
    assert row["telemetry/layer_grad_norm"] == trace["layer_grad_norm"][row["telemetry/step"]].tolist()
    assert len(found["rai"]) >= 12
    assert all(found["rai"].values())


def test_croissant_without_a_day_is_valid_with_a_warning(released: Path, rel: Path, tmp_path: Path) -> None:
    content = json.loads((rel / "croissant.json").read_text("utf-8"))
    assert content.pop("datePublished") == "2026-01-31"
    assert content.pop("url") == "https://example.org/data"
    (rel / "croissant.json").write_text(json.dumps(content), "utf-8")
    code = CROISSANT.split('said["version"]')[0] + "print(json.dumps(found))"
    found = elsewhere(code, tmp_path, rel / "croissant.json")
    assert found["errors"] == []
    assert len(found["warnings"]) == 1
    assert "datePublished" in found["warnings"][0]


def test_runs_whose_fault_is_not_shown_are_counted_and_read_as_the_others(unharmed: Path, tmp_path: Path) -> None:
    """The kind is two words, and part of a path."""
    out = tmp_path / "rel"
    release(unharmed, out, published="2026-01-31", url="https://example.org/data")
    assert (out / "telemetry" / "split=test" / "kind=not shown" / "part-00000.parquet").exists()
    for read in (with_pandas, with_pyarrow, with_duckdb):
        table = read(out)
        kept = {
            run
            for run, kind in zip(table["run_id"].to_pylist(), table["kind"], strict=True)
            if str(kind) == "not shown"
        }
        assert kept == {"run-0-1"}
    text = (out / "README.md").read_text("utf-8")
    assert "| split | failing | healthy | look-alike | latent | not shown | cured |" in text
    assert "6 runs under a fault: 4 failing, 1 latent, 1 not shown; the signature holds in 1 of 2." in text
    found = elsewhere(CROISSANT, tmp_path, out / "croissant.json")
    assert found["errors"] == found["warnings"] == []
    assert [run["runs/kind"] for run in found["runs"]].count("not shown") == 1
    done = subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=out, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr

"""A run that lies in several Parquet row groups is read whole; its last piece alone was (200 rows came out as 50)."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainwreck.evaluation.dataset.dataset import load, write_manifest, write_runs
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.dataset.schema import RUN_FIELDS
from trainwreck.evaluation.dataset.telemetry_file import TelemetryFile
from trainwreck.evaluation.errors import InputError

FILE = "telemetry/split=test/kind=failing/part-00000.parquet"


def written(folder: Path, table: pa.Table, rows: int) -> Path:
    pq.write_table(table, folder / "a.parquet", row_group_size=rows)
    return folder / "a.parquet"


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pq.read_table(sample() / FILE, partitioning=None)


@pytest.mark.parametrize("rows", [50, 64, 199])
def test_groups_of_another_size(rows: int, table: pa.Table, tmp_path: Path) -> None:
    whole, cut = TelemetryFile(sample() / FILE), TelemetryFile(written(tmp_path, table, rows))
    for run_id in table.column("run_id").unique().to_pylist():
        one, other = whole.trace(run_id), cut.trace(run_id)
        assert len(other) == len(one)
        for name in one.signals:
            np.testing.assert_array_equal(other[name], one[name], name)


def test_runs_that_are_interleaved(table: pa.Table, tmp_path: Path) -> None:
    file = TelemetryFile(written(tmp_path, table.sort_by([("step", "ascending")]), 1000))
    whole = TelemetryFile(sample() / FILE)
    for run_id in table.column("run_id").unique().to_pylist()[:3]:
        np.testing.assert_array_equal(file.trace(run_id)["age_loss"], whole.trace(run_id)["age_loss"])


def test_a_run_of_which_rows_are_missing_is_refused_by_every_reader(table: pa.Table, tmp_path: Path) -> None:
    run_id = table.column("run_id")[0].as_py()
    (tmp_path / "telemetry").mkdir()
    written(tmp_path / "telemetry", table.slice(50, 150), 50)
    row = load(sample()).runs.loc[run_id].to_dict() | {"file": "telemetry/a.parquet"}
    write_runs(tmp_path, [{name: _plain(row[name]) for name, _, _ in RUN_FIELDS}])
    write_manifest(tmp_path, {})
    with pytest.raises(InputError, match=f"{run_id}: last_step 199 contradicts its telemetry, which has 150 rows"):
        load(tmp_path).trace(run_id)


def _plain(value: Any) -> Any:
    if value is None or value != value:
        return None
    return int(value) if isinstance(value, float) and value.is_integer() and value > 5 else value

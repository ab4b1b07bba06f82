"""The schema is complete, and writer, reader and documentation agree on it."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from trainwreck.evaluation.dataset.dataset import DataSet, load, write_telemetry
from trainwreck.evaluation.dataset.schema import (
    ADDED_SIGNALS,
    BY_NAME,
    RUN_FIELDS,
    SCHEMA_VERSION,
    SIGNALS,
    Axis,
    Role,
    Signal,
    document,
    runs_schema,
    telemetry_schema,
)
from trainwreck.evaluation.dataset.telemetry_file import TelemetryFile
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.logs.exporters.series import series
from trainwreck.evaluation.replay.rows import rows

COLUMNS = {"run_id", "step"} | set(BY_NAME)


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.name)
def test_a_signal_says_what_it_is(signal: Signal) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", signal.name)
    assert signal.unit.strip()
    assert signal.meaning.strip()
    assert signal.axis in Axis
    assert signal.role in Role
    assert not {"|", "\n"} & set(signal.name + signal.unit + signal.meaning), "it stands in a Markdown table"
    assert signal.unit != "nats/token" or not signal.positive, "nats are compared by their difference"


def test_names_are_given_once() -> None:
    assert len(BY_NAME) == len(SIGNALS)
    names = [name for name, _, _ in RUN_FIELDS]
    assert len(set(names)) == len(names)
    assert all(meaning.strip() and "|" not in meaning for *_, meaning in RUN_FIELDS)


def test_every_signal_is_a_column_of_the_file_with_unit_and_meaning(make_trace: Any, tmp_path: Path) -> None:
    write_telemetry(tmp_path, "a.parquet", [make_trace("r")])
    schema = pq.read_schema(tmp_path / "a.parquet")
    assert set(schema.names) == COLUMNS
    assert schema.equals(telemetry_schema())
    assert schema.metadata[b"trainwreck_schema"] == str(SCHEMA_VERSION).encode()
    for name, signal in BY_NAME.items():
        field = schema.field(name)
        assert field.metadata[b"unit"].decode() == signal.unit
        assert field.metadata[b"meaning"].decode() == signal.meaning
        assert str(field.type).startswith("list") == (signal.axis is not Axis.SCALAR)


def test_the_reader_gives_every_column_and_no_other(make_trace: Any) -> None:
    table = make_trace("r").to_table()
    assert set(Trace.from_table(table).signals) == set(BY_NAME) == set(table.column_names) - {"run_id", "step"}
    for name in BY_NAME.keys() - ADDED_SIGNALS:
        with pytest.raises(KeyError, match=name):
            Trace.from_table(table.drop_columns([name]))


def test_a_file_from_before_some_signals_has_nothing_for_them(make_trace: Any, tmp_path: Path) -> None:
    trace = make_trace("r")
    for name in ADDED_SIGNALS:
        trace.signals[name][:5] = np.nan
    pq.write_table(trace.to_table(), tmp_path / "new.parquet")
    pq.write_table(trace.to_table().drop_columns(list(ADDED_SIGNALS)), tmp_path / "old.parquet")
    new, old = (TelemetryFile(tmp_path / name).trace("r") for name in ("new.parquet", "old.parquet"))
    assert list(old.signals) == list(new.signals) == list(BY_NAME)
    for name in BY_NAME:
        nothing = np.full(len(trace) if BY_NAME[name].axis is Axis.SCALAR else (len(trace), 1), np.nan)
        expected = nothing if name in ADDED_SIGNALS else new[name]
        np.testing.assert_array_equal(old[name], expected)
        np.testing.assert_array_equal(new[name], trace[name])
    assert [row[name] for row in rows(old) for name in ADDED_SIGNALS] == [None] * len(ADDED_SIGNALS) * len(trace)
    seen = list(rows(new))
    assert [row["end_probability"] is None for row in seen] == [step < 5 for step in range(len(trace))]
    assert {"end_probability", "scored_tokens"} & {one.name for one in series(new)}
    assert not {"end_probability", "scored_tokens"} & {one.name for one in series(old)}


@pytest.mark.parametrize("name", ["loss", "grad_norm", "head_entropy"])
def test_the_writer_takes_no_run_without_every_signal(name: str, make_trace: Any) -> None:
    trace = make_trace("r")
    del trace.signals[name]
    with pytest.raises(KeyError, match=name):
        trace.to_table()


def test_the_runs_table_has_every_field_in_order(data_set: DataSet) -> None:
    file = pq.read_schema(data_set.path / "runs.parquet")
    assert file.equals(runs_schema())
    assert file.names == [name for name, _, _ in RUN_FIELDS] == list(load(data_set.path).runs.columns)
    for name, _, meaning in RUN_FIELDS:
        assert file.field(name).metadata[b"meaning"].decode() == meaning


def test_the_documentation_has_a_row_for_every_column_and_no_other() -> None:
    rows = [line for line in document().splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    signals = [[f"`{s.name}`", s.axis.value, s.unit, s.role.value, s.meaning] for s in SIGNALS]
    assert cells == signals + [[f"`{name}`", meaning] for name, _, meaning in RUN_FIELDS]
    assert all(re.search(rf"^ *{axis.value} ", document(), re.M) for axis in Axis), "every axis is explained"
    assert f"version {SCHEMA_VERSION}" in document()

"""Runs are cut out of a file's row groups, however many lie in one; lists are read when one is asked for."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainwreck.evaluation.dataset.schema import SIGNALS, telemetry_schema
from trainwreck.evaluation.dataset.telemetry_file import TelemetryFile
from trainwreck.evaluation.dataset.trace import LISTS, SCALARS, Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import write_parquet


@pytest.fixture
def traces(make_trace: Any) -> dict[str, Trace]:
    made = {name: make_trace(name, seed=i, steps=5 + 3 * i) for i, name in enumerate("abcd")}
    for name in LISTS:  # a run with more layers and heads, beside the others
        made["c"].signals[name] = np.repeat(made["c"][name], 2, axis=1)
    return made


@pytest.fixture
def path(traces: dict[str, Trace], tmp_path: Path) -> Path:
    tables = {name: trace.to_table() for name, trace in traces.items()}
    groups = [pa.concat_tables([tables["b"], tables["a"], tables["c"]]), tables["d"]]
    write_parquet(tmp_path / "t.parquet", groups)
    return tmp_path / "t.parquet"


def assert_same(found: Trace, made: Trace) -> None:
    assert found.run_id == made.run_id
    assert list(found.signals) == [signal.name for signal in SIGNALS]
    assert len(found.signals) == len(SIGNALS)
    np.testing.assert_array_equal(found.evaluated, made.evaluated)
    for name in found.signals:
        np.testing.assert_array_equal(found[name], made[name], name)
        assert found[name].dtype == np.float32


@pytest.mark.parametrize("order", ["abcd", "dcba", "adbdcd"])
def test_every_run_in_any_order(order: str, path: Path, traces: dict[str, Trace]) -> None:
    file = TelemetryFile(path)
    for name in order:
        assert_same(file.trace(name), traces[name])


def test_a_trace_stays_as_it_was_when_another_group_is_read(path: Path, traces: dict[str, Trace]) -> None:
    file = TelemetryFile(path)
    first = file.trace("a")
    file.trace("d")["head_entropy"]
    assert_same(first, traces["a"])


@pytest.mark.parametrize("another", [copy.deepcopy, lambda trace: pickle.loads(pickle.dumps(trace))])
def test_a_trace_can_be_copied_and_sent(another: Any, path: Path, traces: dict[str, Trace]) -> None:
    assert_same(another(TelemetryFile(path).trace("c")), traces["c"])


def test_lists_are_read_with_the_first_that_is_asked_for(path: Path) -> None:
    file = TelemetryFile(path)
    requests = []
    read = file._file.read_row_group

    def noted(group: int, columns: list[str]) -> pa.Table:
        requests.append((group, tuple(columns)))
        return read(group, columns=columns)

    file._file.read_row_group = noted  # type: ignore[method-assign]
    one, two = file.trace("a"), file.trace("b")
    one["loss"], two["grad_norm"]
    assert requests == [(0, ("step", *SCALARS))]
    one["head_entropy"], two["head_entropy"], two["position_loss"]
    assert requests == [(0, ("step", *SCALARS)), (0, LISTS)]


def test_what_one_reader_does_to_a_scalar_does_not_reach_another(path: Path, traces: dict[str, Trace]) -> None:
    file = TelemetryFile(path)
    file.trace("a")["loss"][:] = 0.0
    file.trace("a").evaluated[:] = True
    assert_same(file.trace("a"), traces["a"])


def test_a_signal_that_no_schema_has_is_named(path: Path) -> None:
    trace = TelemetryFile(path).trace("a")
    with pytest.raises(InputError, match="signal: 'mine' is not allowed"):
        trace["mine"]
    with pytest.raises(KeyError, match="mine"):
        trace.signals["mine"]
    assert trace.signals.get("mine") is None


def test_a_run_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(InputError, match=r"t\.parquet: damaged, run e is missing"):
        TelemetryFile(path).trace("e")


def test_what_is_no_telemetry_is_named(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["loss", "age_loss"]), path)
    with pytest.raises(InputError, match=r"t\.parquet: damaged, it has no column age_loss, loss"):
        TelemetryFile(path)
    path.write_text("text")
    with pytest.raises(InputError, match=r"t\.parquet: damaged, not telemetry \("):
        TelemetryFile(path)
    with pytest.raises(InputError, match=r"no\.parquet: damaged, not telemetry"):
        TelemetryFile(path.with_name("no.parquet"))


def test_floats_are_split_into_byte_streams_and_ids_have_statistics(path: Path) -> None:
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert len(columns) == len(telemetry_schema())
    for name, column in columns.items():
        assert column.compression == "ZSTD"
        floats = name not in ("run_id", "step")
        assert ("BYTE_STREAM_SPLIT" in column.encodings) == floats
        assert column.is_stats_set == (name == "run_id")
    assert (columns["run_id"].statistics.min, columns["run_id"].statistics.max) == ("a", "c")

"""A data set on disk: what is damaged is refused in one line; what is whole is read exactly, by anyone's reader."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from trainwreck.evaluation.dataset.dataset import (
    MOST_NAMED,
    DataSet,
    load,
    write_manifest,
    write_runs,
    write_telemetry,
)  # fmt: skip
from trainwreck.evaluation.dataset.schema import SCHEMA_VERSION, SIGNALS, Axis
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import read_json, sha256, write_json

SCALARS = [signal.name for signal in SIGNALS if signal.axis is Axis.SCALAR]
LISTS = [signal.name for signal in SIGNALS if signal.axis is not Axis.SCALAR]
FILES = ["catalogue.json", "runs.parquet", "telemetry/a.parquet", "telemetry/b.parquet"]


@pytest.fixture(scope="module")
def traces(make_trace: Any) -> dict[str, Trace]:
    """Three runs in two files: one ends early, one has NaN, infinity and negative zero in every signal."""
    made = {"a0": make_trace("a0", steps=50), "a1": make_trace("a1", seed=1, steps=7), "b0": make_trace("b0", steps=50)}
    for name in (*SCALARS, *LISTS):
        values = made["b0"][name].reshape(50, -1)
        values[19:23, 0] = [np.nan, np.inf, -np.inf, -0.0]
    made["b0"]["validation_loss"][20:23] = np.nan  # 19 was evaluated and gave NaN; these were not
    return made


@pytest.fixture
def root(tmp_path: Path, traces: dict[str, Trace], make_run: Any) -> Path:
    write_telemetry(tmp_path, "telemetry/a.parquet", [traces["a0"], traces["a1"]])
    write_telemetry(tmp_path, "telemetry/b.parquet", [traces["b0"]])
    write_json(tmp_path / "catalogue.json", {})
    files = {name: f"telemetry/{name[0]}.parquet" for name in ("b0", "a0", "a1")}
    write_runs(tmp_path, [make_run(i, seed=7, file=file, last_step=len(traces[i]) - 1) for i, file in files.items()])
    write_manifest(tmp_path, {"plan": "p"})
    return tmp_path


def edit(**facts: Any) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        manifest = read_json(root / "manifest.json") | facts
        kept = {key: value for key, value in manifest.items() if value is not None}
        (root / "manifest.json").write_text(json.dumps(kept))

    return change


def flip(name: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        content = bytearray((root / name).read_bytes())
        content[len(content) // 2] ^= 1
        (root / name).write_bytes(bytes(content))

    return change


def cut(name: str) -> Callable[[Path], None]:
    return lambda root: (root / name).write_bytes((root / name).read_bytes()[:-1]) and None


DAMAGE: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    **{f"{name} missing": (name, lambda root, name=name: (root / name).unlink(), "missing") for name in FILES},
    **{f"{name} truncated": (name, cut(name), "damaged, .* bytes where the manifest says") for name in FILES[1:]},
    **{f"{name} tampered": (name, flip(name), "damaged or edited") for name in FILES[1:]},
    "catalogue.json edited": ("catalogue.json", lambda root: (root / "catalogue.json").write_text("[]\n"), "damaged"),
    "manifest missing": ("manifest.json", lambda root: (root / "manifest.json").unlink(), "missing"),
    "manifest cut in half": (
        "manifest.json",
        lambda root: (root / "manifest.json").write_text((root / "manifest.json").read_text()[:80]),
        "damaged, not JSON",
    ),
    "another format": ("manifest.json", edit(format="something-else"), "not a Trainwreck data set"),
    "no format": ("manifest.json", edit(format=None), "not a Trainwreck data set"),
    "a list": ("manifest.json", lambda root: (root / "manifest.json").write_text("[]"), "not a Trainwreck data set"),
    "a newer version": (
        "manifest.json",
        edit(schema_version=SCHEMA_VERSION + 1),
        f"schema version {SCHEMA_VERSION + 1} is not allowed; allowed: {SCHEMA_VERSION}",
    ),
    "no version": ("manifest.json", edit(schema_version=None), "schema version None is not allowed"),
    "no files": ("manifest.json", edit(files=None), "damaged"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_one_line_that_names_the_file(name: str, root: Path) -> None:
    load(root)
    file, damage, complaint = DAMAGE[name]
    damage(root)
    with pytest.raises(InputError, match=complaint) as error:
        load(root)
    assert str(error.value).startswith(f"{root / file}: ")
    assert "\n" not in str(error.value)


def test_every_bad_file_is_named_in_one_line(root: Path) -> None:
    (root / "catalogue.json").unlink()
    flip("telemetry/a.parquet")(root)
    cut("telemetry/b.parquet")(root)
    with pytest.raises(InputError) as error:
        load(root)
    assert "\n" not in str(error.value)
    assert [part.split(": ")[0] for part in str(error.value).split("; ")] == [
        str(root / name) for name in ("catalogue.json", "telemetry/a.parquet", "telemetry/b.parquet")
    ]


def test_of_many_bad_files_the_first_are_named_and_the_others_counted(root: Path) -> None:
    facts = read_json(root / "manifest.json")
    gone = {f"telemetry/lost{i}.parquet": {"bytes": 1, "sha256": "0"} for i in range(MOST_NAMED + 3)}
    facts["files"] = facts["files"] | gone
    (root / "manifest.json").write_text(json.dumps(facts))
    with pytest.raises(InputError) as error:
        load(root)
    assert str(error.value).count("missing") == MOST_NAMED
    assert str(error.value).endswith("lost4.parquet: missing; and 3 more")


def replaced(name: str, content: bytes) -> Callable[[Path], None]:
    """Another file under an honest checksum."""

    def change(root: Path) -> None:
        (root / name).write_bytes(content)
        facts = read_json(root / "manifest.json")
        facts["files"][name] = {"bytes": len(content), "sha256": sha256(root / name)}
        (root / "manifest.json").write_text(json.dumps(facts))

    return change


def test_a_runs_table_that_is_none_is_named(root: Path) -> None:
    whole = pq.read_table(root / "runs.parquet")
    pq.write_table(whole.drop_columns(["seed", "cause"]), root / "less.parquet")
    replaced("runs.parquet", (root / "less.parquet").read_bytes())(root)
    with pytest.raises(InputError, match=r"runs\.parquet: damaged, it has no column cause, seed"):
        load(root)
    replaced("runs.parquet", b"text")(root)
    with pytest.raises(InputError, match=r"runs\.parquet: damaged, not Parquet \("):
        load(root)


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"runs.parquet": 7}, r"damaged, it has no size and checksum of runs\.parquet"),
        ({"runs.parquet": {"bytes": 7}}, r"damaged, it has no size and checksum of runs\.parquet"),
        ({"runs.parquet": {"bytes": 1, "sha256": ""}, "../x": {"bytes": 1, "sha256": ""}}, "x is not in the folder"),
        ({"runs.parquet": {"bytes": 1, "sha256": ""}, "/x": {"bytes": 1, "sha256": ""}}, "/x is not in the folder"),
        ([], r"it does not list runs\.parquet"),
    ],
)
def test_a_manifest_that_lists_what_is_no_file_is_refused(files: Any, complaint: str, root: Path) -> None:
    edit(files=files)(root)
    with pytest.raises(InputError, match=rf"manifest\.json: damaged, .*{complaint.removeprefix('damaged, ')}"):
        load(root)


def test_all_files_that_the_manifest_forgets_are_named(root: Path) -> None:
    edit(files={name: facts for name, facts in read_json(root / "manifest.json")["files"].items() if "/" not in name})(
        root
    )
    with pytest.raises(InputError, match=r"does not list telemetry/a\.parquet, telemetry/b\.parquet"):
        load(root)


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_what_is_no_folder_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=f"{name}' is not a folder"):
        load(tmp_path / name)


def test_a_file_that_the_manifest_does_not_name_is_no_concern(root: Path, traces: dict[str, Trace]) -> None:
    """Scores, reports and notes may lie beside a data set."""
    runs = load(root).runs
    (root / "notes.txt").write_text("mine")
    write_telemetry(root, "telemetry/c.parquet", [traces["a0"]])
    pd.testing.assert_frame_equal(load(root).runs, runs)


def test_without_verification_sizes_still_count(root: Path) -> None:
    flip("telemetry/a.parquet")(root)
    assert len(load(root, verify=False)) == 3
    cut("telemetry/b.parquet")(root)
    with pytest.raises(InputError, match=r"b\.parquet: damaged"):
        load(root, verify=False)


def test_the_manifest_lists_every_file_with_size_and_checksum(root: Path) -> None:
    manifest = load(root).manifest
    assert sorted(manifest["files"]) == FILES
    assert all(facts["bytes"] == (root / name).stat().st_size for name, facts in manifest["files"].items())
    assert manifest["plan"] == "p"


def assert_same(found: Trace, made: Trace) -> None:
    np.testing.assert_array_equal(found.evaluated, made.evaluated)
    for signal in SIGNALS:
        assert found[signal.name].dtype == np.float32
        np.testing.assert_array_equal(found[signal.name].view(np.uint32), made[signal.name].view(np.uint32))


def test_every_signal_comes_back_exactly(root: Path, traces: dict[str, Trace]) -> None:
    data = load(str(root))
    assert len(data) == 3
    assert list(data.runs["run_id"]) == ["b0", "a0", "a1"], "in the order they were written"
    assert [trace.run_id for trace in data.traces()] == ["b0", "a0", "a1"]
    for run_id, made in traces.items():
        assert_same(data.trace(run_id), made)


def test_a_file_has_a_row_group_a_run(root: Path) -> None:
    assert pq.ParquetFile(root / "telemetry/a.parquet").num_row_groups == 2
    assert pq.ParquetFile(root / "telemetry/b.parquet").num_row_groups == 1


def test_one_run(root: Path) -> None:
    data = load(root)
    assert data.run("a1")["file"] == "telemetry/a.parquet"
    with pytest.raises(InputError, match="run: 'a9' is not allowed; allowed: b0, a0, a1"):
        data.run("a9")


def test_a_run_that_its_file_lacks_is_one_line(root: Path, traces: dict[str, Trace], make_run: Any) -> None:
    write_runs(root, [make_run("b0", file="telemetry/a.parquet")])
    write_manifest(root, {})
    with pytest.raises(InputError, match=r"a\.parquet: damaged, run b0 is missing"):
        load(root).trace("b0")


def test_one_under_way_needs_no_manifest(root: Path, traces: dict[str, Trace]) -> None:
    (root / "manifest.json").unlink()
    data = DataSet.unlisted(root)
    assert list(data.runs.index) == ["b0", "a0", "a1"]
    assert_same(data.trace("a0"), traces["a0"])


def with_pandas(root: Path) -> dict[str, list[Any]]:
    parts = [pd.read_parquet(file, dtype_backend="pyarrow") for file in sorted((root / "telemetry").iterdir())]
    return {name: pa.array(column).to_pylist() for name, column in pd.concat(parts).items()}


def with_pyarrow(root: Path) -> dict[str, list[Any]]:
    return pads.dataset(root / "telemetry").to_table().to_pydict()


def with_duckdb(root: Path) -> dict[str, list[Any]]:
    answer = duckdb.sql(f"SELECT * FROM '{root}/telemetry/*.parquet' ORDER BY run_id, step")
    columns = zip(*answer.fetchall(), strict=True)
    return {name: list(column) for name, column in zip(answer.columns, columns, strict=True)}


@pytest.mark.parametrize("read", [with_pandas, with_pyarrow, with_duckdb])
def test_others_read_it_without_this_package(
    read: Callable[[Path], dict[str, list[Any]]], root: Path, traces: dict[str, Trace]
) -> None:
    columns = read(root)
    assert columns["run_id"] == [run_id for run_id, trace in traces.items() for _ in range(len(trace))]
    assert columns["step"] == [step for trace in traces.values() for step in range(len(trace))]
    evaluated = np.concatenate([trace.evaluated for trace in traces.values()])
    assert [value is not None for value in columns["validation_loss"]] == evaluated.tolist()
    for name in SCALARS:
        made = np.concatenate([trace[name] for trace in traces.values()])
        known = evaluated if name == "validation_loss" else np.ones(len(made), bool)
        found = np.array([np.nan if value is None else value for value in columns[name]], np.float32)
        np.testing.assert_array_equal(found[known], made[known], name)
    for name in LISTS:
        made = [row for trace in traces.values() for row in trace[name]]
        np.testing.assert_array_equal(np.array(columns[name], np.float32), np.stack(made), name)


def test_runs_and_telemetry_join_on_run_id(root: Path, traces: dict[str, Trace]) -> None:
    counts = duckdb.sql(
        f"SELECT run_id, seed, count(*) FROM '{root}/runs.parquet' JOIN '{root}/telemetry/*.parquet' USING (run_id) "
        "GROUP BY ALL ORDER BY run_id"
    ).fetchall()
    assert counts == [(run_id, 7, len(trace)) for run_id, trace in traces.items()]

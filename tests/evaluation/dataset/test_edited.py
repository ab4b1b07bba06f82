"""Edits of a data set's tables and documents under new checksums: each is one line that names file, run and column."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainwreck.evaluation.dataset.dataset import load, load_labels
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import sha256

Change = Callable[[Path], object]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A copy of the sample. Files are links: what is changed is taken away first."""
    return Path(shutil.copytree(sample(), tmp_path / "data", copy_function=os.link))


def put(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def renew(root: Path, sums: bool = True) -> None:
    """Checksums of what is there now."""
    manifest = json.loads((root / "manifest.json").read_text("utf-8"))
    for name, facts in manifest["files"].items():
        facts |= {"bytes": (root / name).stat().st_size, "sha256": sha256(root / name)}
    put(root / "manifest.json", json.dumps(manifest).encode())
    if sums:
        names = [line.partition("  ")[2] for line in (root / "SHA256SUMS").read_text("utf-8").splitlines()]
        put(root / "SHA256SUMS", "".join(f"{sha256(root / name)}  {name}\n" for name in names).encode())


def with_table(change: Callable[[pa.Table], pa.Table], name: str = "runs.parquet") -> Change:
    def write(root: Path) -> None:
        table = change(pq.read_table(root / name, partitioning=None))
        (root / name).unlink()
        pq.write_table(table, root / name)

    return write


def with_cell(column: str, value: Any, row: int = 0, kind: pa.DataType | None = None) -> Change:
    def change(table: pa.Table) -> pa.Table:
        values = table.column(column).to_pylist()
        values[row] = value
        place = table.column_names.index(column)
        return table.set_column(place, column, pa.array(values, kind or table.schema.field(column).type))

    return with_table(change)


def with_column(column: str, change: Callable[[pa.ChunkedArray], Any]) -> Change:
    return with_table(lambda t: t.set_column(t.column_names.index(column), column, change(t.column(column))))


def with_json(name: str, change: Callable[[Any], object]) -> Change:
    def write(root: Path) -> None:
        content = json.loads((root / name).read_text("utf-8"))
        change(content)
        put(root / name, json.dumps(content).encode())

    return write


# Row 0 of the sample is a failing run of corrupt_tokens, seed 0, onset 85.
CELLS: dict[str, tuple[Change, str]] = {
    "another type": (
        with_column("seed", lambda c: c.cast(pa.string())),
        "column seed: string is not allowed; allowed: int64",
    ),
    "steps as floats": (with_column("onset_step", lambda c: c.cast(pa.float64())), "column onset_step: double is not"),
    "a column twice": (with_table(lambda t: t.append_column("kind", t.column("kind"))), "it has column 'kind' twice"),
    "a run twice": (
        with_table(lambda t: pa.concat_tables([t, t.slice(0, 1)])),
        "is there twice; allowed: each run once",
    ),
    "no run": (with_table(lambda t: t.slice(0, 0)), "it has no run; allowed: one or more"),
    "no kind": (with_cell("kind", None), "row 0: kind: is empty"),
    "a kind of its own": (with_cell("kind", "broken"), "kind: 'broken' is not allowed; allowed: failing, compound"),
    "planned steps below 1": (
        with_cell("planned_steps", -3),
        "planned_steps: -3 is not allowed; allowed: 1 to 100000000",
    ),
    "planned steps beyond all": (with_cell("planned_steps", 2**31 - 1), "planned_steps: 2147483647 is not allowed"),
    "a step below 0": (with_cell("onset_step", -1), "onset_step: -1 is not allowed; allowed: 0 to"),
    "a seed below 0": (with_cell("seed", -1), "seed: -1 is not allowed; allowed: 0 or more"),
    "an infinite loss": (
        with_cell("final_loss", float("inf")),
        "final_loss: inf is not allowed; allowed: a finite number",
    ),
    "a severity of its own": (
        with_cell("severity", "awful"),
        "severity: 'awful' is not allowed; allowed: subtle, clear",
    ),
    "markup for a run": (with_cell("run_id", "<b>"), "row 0: run_id: '<b>' is not allowed; allowed: letters, digits"),
    "a path for a run": (with_cell("run_id", "../x"), r"run_id: '\.\./x' is not allowed"),
    "a file elsewhere": (
        with_cell("file", "../../etc/passwd"),
        "file: .* is not allowed; allowed: a file in the folder",
    ),
    "two lines": (with_cell("scenario", "a\nb"), r"scenario: 'a\\nb' is not allowed"),
    "no JSON": (with_cell("causes", "{"), r"causes: '\{' is not allowed; allowed: an object of causes"),
    "JSON of another shape": (
        with_cell("visible_steps", '{"loss": "<script>"}'),
        "visible_steps: .* allowed: an object of sig",
    ),
    "a signal that is none": (with_cell("visible_steps", '{"<script>": 3}'), "visible_steps: .* is not allowed"),
    "deep JSON": (with_cell("context", "[" * 100_000), r"context: .*characters\) is not allowed; allowed: an object"),
    "a number of too many digits": (with_cell("causes", f'{{"a": {"1" * 5000}}}'), "causes: .* is not allowed"),
    "a spec without seed": (with_cell("spec", '{"role": "twin"}'), "spec: .* allowed: an object with overrides, role"),
}

LABELS: dict[str, tuple[Change, str]] = {
    "kind": (with_cell("kind", "healthy"), "a healthy run with a cause; allowed: none"),
    "latent": (with_cell("kind", "latent"), "contradicts"),
    "cause": (with_cell("cause", "high_lr"), "cause 'high_lr' contradicts what .* allowed: 'corrupt_tokens'"),
    "onset": (with_cell("onset_step", 60), "onset_step 60.0 contradicts .* allowed: 85"),
    "visible": (with_cell("visible_step", 120), "visible_step 120.0 contradicts .* allowed: 85"),
    "cure": (with_cell("cure_step", 100), "cure_step 100.0 contradicts .* allowed: None"),
    "no return": (with_cell("no_return_step", 146), "no_return_step 146.0 contradicts .* allowed: 85"),
    "outcome": (with_cell("outcome", "recovered"), "outcome 'recovered' contradicts .* allowed: 'damaged'"),
    "gap": (with_cell("final_gap", 0.0), "final_gap 0.0 contradicts"),
    "seed": (with_cell("seed", 7), "seed 7 contradicts .* allowed: 0"),
    "split": (with_cell("split", "train"), "contradicts"),
    "severity": (with_cell("severity", "subtle"), "severity 'subtle' contradicts .* allowed: 'severe'"),
    "family": (with_cell("family", "schedule"), "family 'schedule' contradicts .* allowed: 'data'"),
    "planned": (with_cell("planned_steps", 400), "planned_steps 400 contradicts .* allowed: 200"),
}

DOCUMENTS: dict[str, tuple[str, Change, str]] = {
    "files": ("manifest.json", lambda m: m["files"].update({"runs.parquet": 3}), "no size and checksum of runs"),
    "release": ("manifest.json", lambda m: m.update(release=7), "damaged, release is not allowed; allowed: an object"),
    "environment": ("manifest.json", lambda m: m.update(environment=[]), "damaged, environment is not allowed"),
    "imported": (
        "manifest.json",
        lambda m: m.update(imported=[{}]),
        r"imported\[0\] is not allowed; allowed: an object w",
    ),
    "a page": (
        "catalogue.json",
        lambda c: c.update(corrupt_tokens=None),
        "'corrupt_tokens' is not allowed; allowed: an obj",
    ),
    "a title": ("catalogue.json", lambda c: c["corrupt_tokens"].pop("title"), "allowed: an object with title"),
    "a section": (
        "catalogue.json",
        lambda c: c["corrupt_tokens"]["sections"].update(Cure=3),
        "'Cure' is not allowed; .* text",
    ),
    "a signal": (
        "catalogue.json",
        lambda c: c["corrupt_tokens"].update(telling="mine"),
        "telling of corrupt_tokens is not",
    ),
    "a list": ("plan.json", lambda p: p.update(runs=3), "not a plan that this version reads"),
    "a run": (
        "plan.json",
        lambda p: p["runs"].pop(),
        "plan.json: contradicts the runs table: a run that the plan does not",
    ),
    "a seed": (
        "plan.json",
        lambda p: p["runs"][0].update(seed=9),
        "plan.json: contradicts the runs table: a run .* seed",
    ),
}


def assert_refused(root: Path, complaint: str) -> None:
    for read in (load, load_labels):
        with pytest.raises(InputError, match=complaint) as error:
            read(root)
        assert str(error.value).isprintable()
        assert len(str(error.value)) < 700


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_or_column_that_is_not_allowed(name: str, data: Path) -> None:
    change, complaint = CELLS[name]
    change(data)
    renew(data)
    assert_refused(data, f"runs.parquet: .*{complaint}")


@pytest.mark.parametrize("name", LABELS)
def test_a_label_that_something_else_contradicts(name: str, data: Path) -> None:
    """The copies by split are edited with it."""
    change, complaint = LABELS[name]
    change(data)
    table = pq.read_table(data / "runs.parquet")
    for part in (data / "runs").glob("*.parquet"):
        part.unlink()
        pq.write_table(table.filter(pa.compute.equal(table.column("split"), part.stem)), part)
    renew(data)
    assert_refused(data, f"^runs: r7f9f9cc02fa5: .*{complaint}")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_of_another_shape(name: str, data: Path) -> None:
    file, change, complaint = DOCUMENTS[name]
    with_json(file, change)(data)
    if file != "manifest.json":
        renew(data)
        assert_refused(data, complaint)
    else:
        with pytest.raises(InputError, match=complaint):
            load(data)


def test_a_context_that_is_not_its_base_s(data: Path) -> None:
    with_cell("context", '{"lr": 1}')(data)
    renew(data)
    assert_refused(data, "^runs: [0-9a-z]*: context .* contradicts")


def test_the_copies_by_split_are_compared(data: Path) -> None:
    """Of a healthy run nothing else in its row says which base it has."""
    healthy = next(
        i for i, kind in enumerate(pq.read_table(data / "runs.parquet")["split"].to_pylist()) if kind == "calibration"
    )
    with_cell("base", "other", healthy)(data)
    renew(data)
    assert_refused(data, "base 'other' contradicts .*runs/calibration.parquet, where it is '0a9bf2399f1c'")


def test_the_sums_of_a_release_are_compared(data: Path) -> None:
    """With the manifest made again and SHA256SUMS as it was."""
    with_column("run_id", lambda c: c)(data)
    renew(data, sums=False)
    assert_refused(data, "SHA256SUMS: its checksum of runs.parquet is not the manifest's")


def test_a_private_key_more_is_no_concern(data: Path) -> None:
    """Columns of a later version stay out of the table."""
    with_table(lambda t: t.append_column("mine", t.column("seed")))(data)
    renew(data)
    assert "mine" not in load(data).runs.columns


def test_a_final_loss_of_a_run_that_has_none(data: Path) -> None:
    runs = load(data).runs.reset_index(drop=True)
    row = int(runs.index[(runs["outcome"] == "non_finite")][0])
    with_cell("final_loss", 2.5, row)(data)
    for part in (data / "runs").glob("*.parquet"):
        table = pq.read_table(data / "runs.parquet")
        part.unlink()
        pq.write_table(table.filter(pa.compute.equal(table.column("split"), part.stem)), part)
    renew(data)
    assert_refused(data, f"runs: {runs['run_id'][row]}: final_gap")


def test_bytes_of_pages_that_are_broken(data: Path) -> None:
    """Pages are read late: with the signal that they are of."""
    name = "telemetry/split=test/kind=failing/part-00000.parquet"
    content = bytearray((data / name).read_bytes())
    content[len(content) // 2 : len(content) // 2 + 400] = b"\x07" * 400
    put(data / name, bytes(content))
    renew(data)
    found = load(data)
    runs = found.runs[found.runs["file"] == name].index
    with pytest.raises(InputError, match=re.escape(f"{data / name}: damaged, not telemetry (")):
        [dict(found.trace(run_id).signals) for run_id in runs]

"""What else in a data set's folder says the same as its runs table, so that an edit of one of them is noticed.

plan.json                what was asked for
bundles/*.json           what each worker knew of its runs, in a data set as `generate` leaves it
runs/SPLIT.parquet       the runs table by split, in a release
SHA256SUMS               checksums of every file, in a release
telemetry/split=S/kind=K the folders of a release's telemetry
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trainwreck.evaluation.dataset.documents import read_plan
from trainwreck.evaluation.dataset.runs_table import columns_of, parsed, shown
from trainwreck.evaluation.dataset.schema import RUN_FIELDS
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import read_json, sha256

SUMS = "SHA256SUMS"  # of every file of a release
INJECTED = (
    "scenario", "cause", "causes", "family", "split", "held_out", "severity", "seed", "size", "base", "planned_steps",
    "last_step", "onset_step", "cure_step", "final_loss", "harm", "twin_id", "context", "spec", "file",
)  # fmt: skip
"""Columns that a worker writes and no labelling changes."""
PLACE = re.compile(r"telemetry/split=([^/]*)/kind=([^/]*)/[^/]*")


def check_copies(root: Path, manifest: Mapping[str, Any], runs: pa.Table) -> None:
    """InputError where a file of the folder says else of a run than the runs table; what is not there says nothing."""
    if (root / SUMS).is_file():
        _check_sums(root, manifest["files"])
    places = [runs.column(name).to_pylist() for name in ("run_id", "file", "split", "kind")]
    for run_id, file, split, kind in zip(*places, strict=True):
        found = PLACE.fullmatch(file)
        if found and found.groups() != (split, kind):
            raise InputError(f"runs: {run_id}: split {split!r} and kind {kind!r} contradict its file, {file!r}")
    if (root / "plan.json").is_file():
        _check_plan(root / "plan.json", runs.column("spec").to_pylist())
    if "release" not in manifest:
        for file in sorted((root / "bundles").glob("*.json")):
            _check_rows(file, _bundle(file), runs)
    for name in sorted(manifest["files"]):
        if re.fullmatch(r"runs/[^/]+\.parquet", name):
            part = columns_of(root / name)
            _check_rows(root / name, {name: part.column(name) for name in part.column_names}, runs)


def _check_sums(root: Path, files: Mapping[str, Any]) -> None:
    text = (root / SUMS).read_text(encoding="utf-8", errors="replace")
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in text.splitlines())}
    wrong = [name for name, facts in files.items() if sums.get(name) != facts["sha256"]]
    if not wrong and sums.get("manifest.json") != sha256(root / "manifest.json"):
        wrong = ["manifest.json"]
    if wrong:
        raise InputError(f"{root / SUMS}: its checksum of {wrong[0]} is not the manifest's: one of them was edited")


def _check_plan(file: Path, specs: Iterable[str | None]) -> None:
    """The runs of a plan are those of the table. A healthy run is of every scenario with its base."""
    wanted = Counter(map(_asked, read_plan(file)["runs"]))
    present = Counter(map(_asked, map(parsed, specs)))
    for one, other, what in ((present, wanted, "that the plan does not have"), (wanted, present, "that is not there")):
        if more := one - other:
            name = ", ".join(f"{key} {value!r}" for key, value in next(iter(more)))
            raise InputError(f"{file}: contradicts the runs table: a run {what}: {name}")


def _asked(spec: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    names: tuple[str, ...] = ("role", "seed", "split", "held_out")
    if spec.get("role") != "twin":
        names = ("scenario", "severity", "size", *names)
    return tuple((name, spec.get(name) or "") for name in names)


def _bundle(file: Path) -> dict[str, pa.ChunkedArray]:
    """What a worker knew of the runs of a bundle, a column a field."""
    content = read_json(file)
    rows: Any = content.get("rows") if isinstance(content, dict) else None
    kinds = {"run_id": pa.string()} | {name: pa.type_for_alias(k) for name, k, _ in RUN_FIELDS if name in INJECTED}
    try:
        return {name: pa.chunked_array([[row.get(name) for row in rows]], kind) for name, kind in kinds.items()}
    except (TypeError, AttributeError, OverflowError, pa.ArrowException):
        raise InputError(f"{file}: damaged, not a bundle of runs") from None


def _check_rows(file: Path, copy: Mapping[str, Any], runs: pa.Table) -> None:
    """Of the runs that both have."""
    places = pc.index_in(copy["run_id"], runs.column("run_id"))
    known = places.is_valid()
    places = places.filter(known)
    for name, values in copy.items():
        here, there = runs.column(name).take(places), values.filter(known)
        if here.equals(there):
            continue
        for place, (mine, yours) in enumerate(zip(here.to_pylist(), there.to_pylist(), strict=True)):
            if not _same(mine, yours):
                run_id = runs.column("run_id")[places[place].as_py()].as_py()
                raise InputError(
                    f"runs: {run_id}: {name} {shown(mine)} contradicts {file}, where it is {shown(yours)}: "
                    "one of them was edited"
                )


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) or (_is_missing(a) and _is_missing(b))


def _is_missing(value: Any) -> bool:
    return value is None or value != value

"""A data set on disk: a runs table, telemetry files, and a manifest with a checksum for each.

DIR/manifest.json        format version, plan, provenance, {file: sha256, bytes}
DIR/runs.parquet         one row a run, with its label     (columns: schema.RUN_FIELDS)
DIR/telemetry/*.parquet  one row a step, a row group a run (columns: schema.SIGNALS)
DIR/catalogue.json       the page of every scenario in it
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from trainwreck.evaluation.dataset.consistency import check_labels, check_table, check_telemetry
from trainwreck.evaluation.dataset.copies import SUMS, check_copies
from trainwreck.evaluation.dataset.documents import FORMAT, IMPORTED, Pages, read_manifest, read_pages
from trainwreck.evaluation.dataset.runs_table import UNPROVEN, objective_of, read_runs
from trainwreck.evaluation.dataset.sample import named
from trainwreck.evaluation.dataset.schema import SCHEMA_VERSION, runs_schema
from trainwreck.evaluation.dataset.telemetry_file import TelemetryFile
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.files import sha256, write_json, write_parquet

__all__ = [
    "FORMAT", "IMPORTED", "SUMS", "UNPROVEN", "DataSet", "load", "load_labels", "read_runs", "telemetry_digest",
    "write_manifest", "write_runs", "write_telemetry",
]  # fmt: skip

MOST_NAMED = 5  # files in one error


class DataSet:
    """Runs and their telemetry. Use `load`."""

    def __init__(self, path: Path, manifest: dict[str, Any], runs: pd.DataFrame) -> None:
        self.path, self.manifest, self.runs = path, manifest, runs
        self._files: dict[str, TelemetryFile] = {}

    @classmethod
    def unlisted(cls, path: Path) -> "DataSet":
        """A data set under way, without a manifest: for the steps that lead to one."""
        return cls(path, {}, _frame(read_runs(path)))

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def imported(self) -> bool:
        """Whether its runs are someone else's logs."""
        return IMPORTED in self.manifest

    def rows(self) -> list[dict[str, Any]]:
        """The runs table as it lies on disk."""
        rows: list[dict[str, Any]] = read_runs(self.path).to_pylist()
        return rows

    def run(self, run_id: str) -> pd.Series:
        """The row of a run."""
        if run_id not in self.runs.index:
            raise unknown("run", run_id, self.runs.index)
        row = self.runs.loc[run_id]
        assert isinstance(row, pd.Series)
        return row

    def trace(self, run_id: str) -> Trace:
        """Telemetry of a run. InputError where it is damaged, or not that of the run's label."""
        row = self.run(run_id)
        name = row["file"]
        if name not in self._files:
            self._files[name] = TelemetryFile(self.path / name)
        found = self._files[name].trace(run_id)
        check_telemetry(row, found)
        found.objective = objective_of(row["context"])
        return found

    @cached_property
    def pages(self) -> Pages:
        """The page of each scenario in it. InputError for one that is not there."""
        return read_pages(self.path)

    def by_file(self) -> list[str]:
        """Run ids in the order in which a release's files hold them, which is the fastest to read all in."""
        return self.runs.sort_index().sort_values("file", kind="stable")["run_id"].tolist()

    def traces(self) -> Iterator[Trace]:
        """Telemetry of every run, in the order of the runs table."""
        for run_id in self.runs.index:
            yield self.trace(run_id)


def load(path: str | Path | DataSet, *, verify: bool = True) -> DataSet:
    """Open a data set: a folder, or "sample". One that is open already is handed back as it is.

    With `verify` every file is checked against its checksum first. Raises InputError that names the first
    files that are missing, truncated or edited, and how many more there are, or says what else is wrong: not finished,
    not a data set, of another version.
    """
    if isinstance(path, DataSet):
        return path
    root = named(Path(path))
    if not root.is_dir():
        raise InputError(f"data set: {str(root)!r} is not a folder")
    begun = (root / "plan.json").exists() and not (root / SUMS).exists()  # a release has a plan too
    if begun and not (root / "manifest.json").exists():
        raise InputError(f"{root}: not finished; `trainwreck generate {root}/plan.json --out {root}` goes on with it")
    manifest = read_manifest(root / "manifest.json")
    wrong = [
        complaint
        for name, facts in sorted(manifest["files"].items())
        if (complaint := _wrong(root / name, facts, verify))
    ]
    if wrong:
        more = [f"and {len(wrong) - MOST_NAMED} more"] if len(wrong) > MOST_NAMED else []
        raise InputError("; ".join([*wrong[:MOST_NAMED], *more]))
    return DataSet(root, manifest, _listed_runs(root, manifest))


def load_labels(path: str | Path | DataSet) -> DataSet:
    """A data set of which only manifest and runs table are here, or read: enough to score stored alarms.

    Telemetry is neither checked nor needed. Raises InputError as `load` does.
    """
    if isinstance(path, DataSet):
        return path
    root = named(Path(path))
    if not root.is_dir():
        raise InputError(f"data set: {str(root)!r} is not a folder")
    manifest = read_manifest(root / "manifest.json")
    complaint = _wrong(root / "runs.parquet", manifest["files"]["runs.parquet"], verify=True)
    if complaint:
        raise InputError(complaint)
    return DataSet(root, manifest, _listed_runs(root, manifest))


def telemetry_digest(dataset: DataSet) -> str:
    """Which telemetry this is: SHA-256 over the names and checksums of the files that the runs lie in.

    Labels don't count: alarms hold for the rows that they were raised on, however often those are labelled again.
    """
    files = dataset.manifest["files"]
    lines = [f"{files[name]['sha256']}  {name}\n" for name in sorted(set(dataset.runs["file"]))]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _wrong(file: Path, facts: dict[str, Any], verify: bool) -> str:
    """What is wrong with a file; empty if nothing is."""
    if not file.is_file():
        return f"{file}: missing"
    if file.stat().st_size != facts["bytes"]:
        return f"{file}: damaged, {file.stat().st_size} bytes where the manifest says {facts['bytes']}"
    if verify and sha256(file) != facts["sha256"]:
        return f"{file}: damaged or edited, its checksum is not the manifest's"
    return ""


def _listed_runs(root: Path, manifest: dict[str, Any]) -> pd.DataFrame:
    """The runs table, which agrees with the manifest, with itself and with what else is in the folder."""
    table = read_runs(root)
    runs = _frame(table)
    unlisted = sorted(set(runs["file"]) - set(manifest["files"]))
    if unlisted:
        raise InputError(f"{root / 'manifest.json'}: damaged, it does not list {', '.join(unlisted)}")
    if IMPORTED in manifest and [entry["run_id"] for entry in manifest[IMPORTED]] != runs["run_id"].tolist():
        raise InputError(f"{root / 'manifest.json'}: damaged, its imported runs are not those of runs.parquet")
    check_table(runs)
    check_labels(runs, read_pages(root) if (root / "catalogue.json").is_file() else {})
    check_copies(root, manifest, table)
    return runs


def _frame(table: pa.Table) -> pd.DataFrame:
    """By run id. A text that is missing is None, for which pandas 3 would have NaN."""
    frame: pd.DataFrame = table.to_pandas()
    for field in table.schema:
        if pa.types.is_string(field.type):
            frame[field.name] = pd.Series(table[field.name].to_pylist(), dtype=object)
    return frame.set_index("run_id", drop=False)


def write_runs(root: Path, rows: list[dict[str, Any]], name: str = "runs.parquet") -> None:
    """Write the runs table. rows: one dict a run with every field of `schema.RUN_FIELDS`, and `UNPROVEN` or not."""
    schema = runs_schema()
    if any(UNPROVEN in row for row in rows):
        schema = schema.append(pa.field(UNPROVEN, pa.bool_()))
    write_parquet(root / name, [pa.Table.from_pylist(rows, schema=schema)])


def write_telemetry(root: Path, name: str, traces: list[Trace]) -> None:
    """Write one telemetry file, `name` relative to the data set, a row group a run."""
    write_parquet(root / name, [trace.to_table() for trace in traces])


def write_manifest(root: Path, facts: dict[str, Any], also: Sequence[str] = ()) -> None:
    """Checksum the tables, every telemetry file that they name and the files of `also`; write the manifest last."""
    telemetry = pq.read_table(root / "runs.parquet", columns=["file"]).column(0).unique().to_pylist()
    tables = [name for name in ("runs.parquet", "catalogue.json") if (root / name).exists()]
    files = {
        name: {"sha256": sha256(root / name), "bytes": (root / name).stat().st_size}
        for name in [*tables, *sorted(telemetry), *also]
    }
    write_json(
        root / "manifest.json",
        {"format": FORMAT, "schema_version": SCHEMA_VERSION, "files": files, **facts},
    )

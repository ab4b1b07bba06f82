"""A data set on disk: a runs table, telemetry files, and a manifest with a checksum for each.

DIR/manifest.json        format version, plan, provenance, {file: sha256, bytes}
DIR/runs.parquet         one row a run, with its label     (columns: schema.RUN_FIELDS)
DIR/telemetry/*.parquet  one row a step, a row group a run (columns: schema.SIGNALS)
DIR/catalogue.json       the page of every scenario in it
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.files import read_json, sha256, write_json, write_parquet
from trainwreck.evaluation.schema import SCHEMA_VERSION, runs_schema
from trainwreck.evaluation.trace import Trace

FORMAT = "trainwreck-data-set"
IMPORTED = "imported"  # key of the manifest, see `readers.imported`


class DataSet:
    """Runs and their telemetry. Use `load`."""

    def __init__(self, path: Path, manifest: dict[str, Any], runs: pd.DataFrame) -> None:
        self.path, self.manifest, self.runs = path, manifest, runs
        self._files: dict[str, tuple[pq.ParquetFile, dict[str, int]]] = {}

    @classmethod
    def unlisted(cls, path: Path) -> "DataSet":
        """A data set under way, without a manifest: for the steps that lead to one."""
        return cls(path, {}, _runs(path))

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def imported(self) -> bool:
        """Whether its runs are someone else's logs."""
        return IMPORTED in self.manifest

    def run(self, run_id: str) -> pd.Series:
        """The row of a run."""
        if run_id not in self.runs.index:
            raise unknown("run", run_id, self.runs.index)
        row = self.runs.loc[run_id]
        assert isinstance(row, pd.Series)
        return row

    def trace(self, run_id: str) -> Trace:
        """Telemetry of a run."""
        name = self.run(run_id)["file"]
        if name not in self._files:
            file = pq.ParquetFile(self.path / name)
            ids = (file.read_row_group(i, columns=["run_id"]).column(0)[0].as_py() for i in range(file.num_row_groups))
            self._files[name] = file, {found: i for i, found in enumerate(ids)}
        file, groups = self._files[name]
        if run_id not in groups:
            raise InputError(f"{self.path / name}: damaged, run {run_id} is missing")
        return Trace.from_table(file.read_row_group(groups[run_id]))

    def traces(self) -> Iterator[Trace]:
        """Telemetry of every run, in the order of the runs table."""
        for run_id in self.runs.index:
            yield self.trace(run_id)


def load(path: str | Path, *, verify: bool = True) -> DataSet:
    """Open a data set. With `verify` every file is checked against its checksum first.

    Raises InputError that names the first file that is missing, truncated, edited or too new.
    """
    root = Path(path)
    if not root.is_dir():
        raise InputError(f"data set: {str(root)!r} is not a folder")
    if (root / "plan.json").exists() and not (root / "manifest.json").exists():
        raise InputError(f"{root}: not finished; `trainwreck generate {root}/plan.json --out {root}` goes on with it")
    manifest = read_json(root / "manifest.json")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{root / 'manifest.json'}: not a Trainwreck data set")
    version = manifest.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{root / 'manifest.json'}: schema version {version} is not allowed; allowed: {SCHEMA_VERSION}"
        )
    if "runs.parquet" not in (manifest.get("files") or {}):
        raise InputError(f"{root / 'manifest.json'}: damaged, it does not list runs.parquet")
    for name, facts in sorted(manifest["files"].items()):
        file = root / name
        if not file.is_file():
            raise InputError(f"{file}: missing")
        if file.stat().st_size != facts["bytes"]:
            raise InputError(f"{file}: damaged, {file.stat().st_size} bytes where the manifest says {facts['bytes']}")
        if verify and sha256(file) != facts["sha256"]:
            raise InputError(f"{file}: damaged or edited, its checksum is not the manifest's")
    runs = _runs(root)
    unlisted = sorted(set(runs["file"]) - set(manifest["files"]))
    if unlisted:
        raise InputError(f"{root / 'manifest.json'}: damaged, it does not list {unlisted[0]}")
    return DataSet(root, manifest, runs)


def _runs(root: Path) -> pd.DataFrame:
    table: pd.DataFrame = pq.read_table(root / "runs.parquet").to_pandas()
    return table.set_index("run_id", drop=False)


def write_runs(root: Path, rows: list[dict[str, Any]]) -> None:
    """Write the runs table. rows: one dict a run with every field of `schema.RUN_FIELDS`."""
    write_parquet(root / "runs.parquet", [pa.Table.from_pylist(rows, schema=runs_schema())])


def write_telemetry(root: Path, name: str, traces: list[Trace]) -> None:
    """Write one telemetry file, `name` relative to the data set, a row group a run."""
    write_parquet(root / name, [trace.to_table() for trace in traces])


def write_manifest(root: Path, facts: dict[str, Any]) -> None:
    """Checksum the tables and every telemetry file that they name, and write the manifest last."""
    telemetry = pq.read_table(root / "runs.parquet", columns=["file"]).column(0).unique().to_pylist()
    tables = [name for name in ("runs.parquet", "catalogue.json") if (root / name).exists()]
    files = {
        name: {"sha256": sha256(root / name), "bytes": (root / name).stat().st_size}
        for name in [*tables, *sorted(telemetry)]
    }
    write_json(
        root / "manifest.json",
        {"format": FORMAT, "schema_version": SCHEMA_VERSION, "files": files, **facts},
    )

"""Telemetry by split and kind, in files and row groups of a size that suits other readers.

telemetry/split=SPLIT/kind=KIND/part-NNNNN.parquet: pyarrow, pandas and DuckDB give the two as columns
(a path in this form is Apache Hive's). Runs lie in the order of their ids, which are hashes: the order
says nothing, and a reader that wants one run finds its row group by the statistics of run_id.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.files import write_parquet

GROUP_ROWS = 4096  # a row group has at least so many where it can: each costs 46 columns' pages to open
FILE_ROWS = 262_144  # and a file at most so many: some tens of megabytes

Progress = Callable[[int], object]
"""Called with the number of runs written so far."""


def write_partitions(
    dataset: DataSet, rows: list[dict[str, Any]], out: Path, progress: Progress
) -> list[dict[str, Any]]:
    """Write the runs' telemetry under `out`; the rows again, each with its new file."""
    parts: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        parts.setdefault((row["split"], row["kind"]), []).append(row["run_id"])
    lengths = {row["run_id"]: row["last_step"] + 1 for row in rows}
    homes: dict[str, str] = {}
    for (split, kind), ids in sorted(parts.items()):
        for number, chunk in enumerate(_files(sorted(ids), lengths)):
            name = f"telemetry/split={split}/kind={kind}/part-{number:05}.parquet"
            write_parquet(out / name, _groups(dataset, chunk))
            homes |= dict.fromkeys(chunk, name)
            progress(len(homes))
    return [row | {"file": homes[row["run_id"]]} for row in rows]


def _files(ids: list[str], lengths: dict[str, int]) -> Iterator[list[str]]:
    """The ids cut into those of each file; a run is never cut."""
    chunk: list[str] = []
    total = 0
    for run_id in ids:
        if chunk and total + lengths[run_id] > FILE_ROWS:
            yield chunk
            chunk, total = [], 0
        chunk.append(run_id)
        total += lengths[run_id]
    yield chunk


def _groups(dataset: DataSet, ids: list[str]) -> Iterator[pa.Table]:
    """Telemetry of the runs, a table a row group; a run is never cut."""
    held: list[pa.Table] = []
    total = 0
    for run_id in ids:
        held.append(dataset.trace(run_id).to_table())
        total += len(held[-1])
        if total >= GROUP_ROWS:
            yield pa.concat_tables(held).combine_chunks()
            held, total = [], 0
    if held:
        yield pa.concat_tables(held).combine_chunks()

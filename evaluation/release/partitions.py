"""Telemetry by split and kind, in files and row groups of a size that suits other readers.

telemetry/split=SPLIT/kind=KIND/part-NNNNN.parquet: pyarrow, pandas and DuckDB give the two as columns
(a path in this form is Apache Hive's). Runs lie in the order of their ids, which are hashes: the order
says nothing, and a reader that wants one run finds its row group by the statistics of run_id.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import ADDED_SIGNALS, SIGNALS
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.files import write_parquet

GROUP_ROWS = 4096  # a row group has at least so many where it can: each costs 46 columns' pages to open
FILE_ROWS = 262_144  # and a file at most so many: some tens of megabytes


Progress = Callable[[int], object]
"""Called with the number of runs written so far."""
Read = Callable[[str], Trace]
"""The telemetry of a run, by its id."""


def only(trace: Trace, names: Sequence[str]) -> Trace:
    """These signals of a run and no others."""
    none = np.zeros(len(trace), bool)
    missing = {signal.name: none for signal in SIGNALS if signal.name not in names}
    return dataclasses.replace(trace, signals={name: trace.signals[name] for name in names}, logged=missing)


def empty_columns(read: Read, run_ids: Iterable[str]) -> tuple[str, ...]:
    """Columns that no run has a value in, of those that a telemetry file may lack; a file without them says the same.

    Each would cost every row group of every file a page of its own.
    """
    left = list(ADDED_SIGNALS)
    for run_id in run_ids:
        signals = read(run_id).signals
        left = [name for name in left if (values := signals.get(name)) is None or np.isnan(values).all()]
        if not left:
            break
    return tuple(left)


def write_partitions(
    dataset: DataSet, rows: list[dict[str, Any]], out: Path, progress: Progress, names: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Write the runs' telemetry under `out`, without `empty_columns`; the rows again, each with its new file.

    names: of the signals that are written, all where there are none.
    """

    def read(run_id: str) -> Trace:
        trace = dataset.trace(run_id)
        return only(trace, names) if names else trace

    parts: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        parts.setdefault((row["split"], row["kind"]), []).append(row["run_id"])
    lengths = {row["run_id"]: row["last_step"] + 1 for row in rows}
    homes: dict[str, str] = {}
    empty = empty_columns(read, lengths)
    for (split, kind), ids in sorted(parts.items()):
        for number, chunk in enumerate(_files(sorted(ids), lengths)):
            name = f"telemetry/split={split}/kind={kind}/part-{number:05}.parquet"
            write_parquet(out / name, _groups(read, chunk, empty))
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


def _groups(read: Read, ids: list[str], empty: Sequence[str]) -> Iterator[pa.Table]:
    """Telemetry of the runs without the columns of `empty`, a table a row group; a run is never cut."""
    held: list[pa.Table] = []
    total = 0
    for run_id in ids:
        held.append(read(run_id).to_table().drop_columns(list(empty)))
        total += len(held[-1])
        if total >= GROUP_ROWS:
            yield pa.concat_tables(held).combine_chunks()
            held, total = [], 0
    if held:
        yield pa.concat_tables(held).combine_chunks()

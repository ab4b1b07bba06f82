"""A telemetry file, read a row group at a time: runs are looked up by id and cut out of their group.

`generate` writes a row group a run; a release puts whole runs together, since each column of each
group costs as much to open as some hundred rows cost to decode. Another writer may cut a run in
several groups: then the file is read as one group, and the run's rows in the order of the file.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trainwreck.evaluation.dataset.schema import ADDED_SIGNALS, SIGNALS, column_type
from trainwreck.evaluation.dataset.trace import LISTS, SCALARS, Columns, Trace, with_added
from trainwreck.evaluation.errors import InputError, printable

KEPT = 32
WHOLE = -1  # every group of a file as one
DAMAGE = (OSError, pa.ArrowException, KeyError, ValueError)  # what a reader meets in bytes that are no Parquet


class TelemetryFile:
    """Runs of one file. The last `KEPT` groups read are kept: runs that lie beside each other decode one once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = pq.ParquetFile(path)
            schema = self._file.schema_arrow
        except DAMAGE as error:
            raise self._damaged(error) from None
        self._lacks = set(ADDED_SIGNALS) - set(schema.names)
        missing = sorted({"run_id", "step", *SCALARS, *LISTS} - {*schema.names, *self._lacks})
        if missing:
            raise InputError(f"{path}: damaged, it has no column {', '.join(missing)}")
        for name, kind in [("run_id", pa.string()), *((signal.name, column_type(signal)) for signal in SIGNALS)]:
            if name in self._lacks:
                continue
            if schema.names.count(name) > 1:
                raise InputError(f"{path}: damaged, it has column {name} twice")
            if not schema.field(name).type.equals(kind):
                raise InputError(f"{path}: column {name}: {schema.field(name).type} is not allowed; allowed: {kind}")
        if schema.names.count("step") > 1 or not pa.types.is_integer(schema.field("step").type):
            raise InputError(f"{path}: damaged, it has no column step of whole numbers")
        try:
            self._places = self._find_runs()
        except DAMAGE as error:
            raise self._damaged(error) from None
        self._groups: dict[int, Columns] = {}  # the one read last at the end

    def trace(self, run_id: str) -> Trace:
        """Telemetry of a run; InputError where the file lacks it or is damaged."""
        if run_id not in self._places:
            raise InputError(f"{self.path}: damaged, run {run_id} is missing")
        group, pieces = self._places[run_id]
        if len(pieces) > 1:  # other runs' rows lie in between
            rows = np.concatenate([np.arange(start, stop) for start, stop in pieces])
            return Columns(lambda columns: self._read(group, columns).take(rows)).trace(run_id, 0, len(rows))
        columns = self._groups.pop(group, None) or Columns(partial(self._read, group))
        self._groups[group] = columns
        if len(self._groups) > KEPT:
            del self._groups[next(iter(self._groups))]
        return columns.trace(run_id, *pieces[0])

    def _read(self, group: int, columns: list[str]) -> pa.Table:
        try:
            one, there = group != WHOLE, [name for name in columns if name not in self._lacks]
            table = self._file.read_row_group(group, columns=there) if one else self._file.read(columns=there)
            if len(there) < len(columns):
                table = with_added(table)
            if "step" in columns and table.column("step").null_count:
                raise ValueError("a row without a step")
        except DAMAGE as error:
            raise self._damaged(error) from None
        return table

    def _find_runs(self) -> dict[str, tuple[int, list[tuple[int, int]]]]:
        """Run id to its group and its rows there, in pieces from the one to before the other."""
        places: dict[str, tuple[int, list[tuple[int, int]]]] = {}
        for group in range(self._file.num_row_groups):
            for run_id, start, stop in _pieces(self._file.read_row_group(group, columns=["run_id"])):
                if places.setdefault(run_id, (group, []))[0] != group:
                    return self._find_in_whole()
                places[run_id][1].append((start, stop))
        return places

    def _find_in_whole(self) -> dict[str, tuple[int, list[tuple[int, int]]]]:
        places: dict[str, tuple[int, list[tuple[int, int]]]] = {}
        for run_id, start, stop in _pieces(self._file.read(columns=["run_id"])):
            places.setdefault(run_id, (WHOLE, []))[1].append((start, stop))
        return places

    def _damaged(self, error: Exception) -> InputError:
        return InputError(f"{self.path}: damaged, not telemetry ({printable(error)})")


def _pieces(table: pa.Table) -> Iterator[tuple[str, int, int]]:
    """Rows of one run beside each other: its id, the first row, and the one after the last."""
    ids = table.column("run_id")
    if ids.null_count:
        raise ValueError("a row without a run_id")
    coded = ids.combine_chunks().dictionary_encode()
    codes = coded.indices.to_numpy()
    starts = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
    for start, stop in zip(starts, [*starts[1:], len(codes)], strict=True):
        yield coded.dictionary[int(codes[start])].as_py(), start, stop

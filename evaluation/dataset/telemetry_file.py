"""A telemetry file, read a row group at a time: runs are looked up by id and cut out of their group.

`generate` writes a row group a run; a release puts whole runs together, since each column of each
group costs as much to open as some hundred rows cost to decode.
"""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trainwreck.evaluation.dataset.trace import LISTS, SCALARS, Columns, Trace
from trainwreck.evaluation.errors import InputError

KEPT = 32


class TelemetryFile:
    """Runs of one file. The last `KEPT` groups read are kept: runs that lie beside each other decode one once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = pq.ParquetFile(path)
            self._places = self._find_runs()
        except (OSError, pa.ArrowException, KeyError) as error:
            raise InputError(f"{path}: damaged, not telemetry ({' '.join(str(error).split())})") from None
        missing = sorted({"run_id", *SCALARS, *LISTS} - set(self._file.schema_arrow.names))
        if missing:
            raise InputError(f"{path}: damaged, it has no column {', '.join(missing)}")
        self._groups: dict[int, Columns] = {}  # the one read last at the end

    def trace(self, run_id: str) -> Trace:
        """Telemetry of a run; InputError where the file lacks it."""
        if run_id not in self._places:
            raise InputError(f"{self.path}: damaged, run {run_id} is missing")
        group, start, stop = self._places[run_id]
        columns = self._groups.pop(group, None) or Columns(partial(self._read, group))
        self._groups[group] = columns
        if len(self._groups) > KEPT:
            del self._groups[next(iter(self._groups))]
        return columns.trace(run_id, start, stop)

    def _read(self, group: int, columns: list[str]) -> pa.Table:
        return self._file.read_row_group(group, columns=columns)

    def _find_runs(self) -> dict[str, tuple[int, int, int]]:
        """Run id to its group and the rows there, from the one to before the other."""
        places = {}
        for group in range(self._file.num_row_groups):
            ids = self._file.read_row_group(group, columns=["run_id"]).column("run_id")
            coded = ids.combine_chunks().dictionary_encode()
            codes = coded.indices.to_numpy()
            starts = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
            for start, stop in zip(starts, [*starts[1:], len(codes)], strict=True):
                places[coded.dictionary[int(codes[start])].as_py()] = group, start, stop
        return places

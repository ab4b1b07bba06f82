"""The telemetry of one run in memory: one array a signal, a row a step."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trainwreck.evaluation.schema import EVALUATIONS, SIGNALS, Axis, telemetry_schema


@dataclass
class Trace:
    """Signals of one run: [S] for scalars, [S, K] for the others, float32.

    `validation_loss` is NaN where there was no evaluation; `evaluated` tells those steps apart
    from an evaluation that gave NaN. `fresh_loss` is NaN there too, and at every step of a run
    without a second held-out set.
    """

    run_id: str
    signals: dict[str, np.ndarray]
    evaluated: np.ndarray  # bool, [S]

    def __len__(self) -> int:
        return len(self.evaluated)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.signals[name]

    @property
    def evaluations(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps and values of the validation loss."""
        steps = np.flatnonzero(self.evaluated)
        return steps, self.signals["validation_loss"][steps]

    def to_table(self) -> pa.Table:
        """As in a telemetry file."""
        columns: list[pa.Array] = [
            pa.array([self.run_id] * len(self), pa.string()),
            pa.array(np.arange(len(self), dtype=np.int32)),
        ]
        for signal in SIGNALS:
            values = np.ascontiguousarray(self.signals[signal.name], dtype=np.float32)
            if signal.name == "validation_loss":
                columns.append(pa.array(values, mask=~self.evaluated, from_pandas=False))
            elif signal.name in EVALUATIONS:
                columns.append(pa.array(values, from_pandas=True))
            elif signal.axis is Axis.SCALAR:
                columns.append(pa.array(values, from_pandas=False))
            else:
                offsets = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
                columns.append(pa.ListArray.from_arrays(offsets, pa.array(values.ravel(), from_pandas=False)))
        return pa.Table.from_arrays(columns, schema=telemetry_schema())

    @classmethod
    def from_table(cls, table: pa.Table) -> "Trace":
        """The inverse of `to_table`, for a table with the rows of one run in order."""
        return Columns(table).trace(table.column("run_id")[0].as_py(), 0, len(table))

    def finite(self) -> bool:
        """Whether the training loss is finite at every step."""
        return bool(np.isfinite(self.signals["loss"]).all())

    def final_loss(self) -> float:
        """The last validation loss; NaN where the run ended without one or with a non-finite training loss."""
        _, values = self.evaluations
        ended_well = len(self) > 0 and bool(np.isfinite(self.signals["loss"][-1]))
        return float(values[-1]) if len(values) and ended_well else float("nan")


class Columns:
    """A telemetry table as arrays, out of which the runs in it are cut. Decoding once what several share is faster."""

    def __init__(self, table: pa.Table) -> None:
        self._scalars: dict[str, np.ndarray] = {}
        self._lists: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # numbers, and where each row's begin
        for signal in SIGNALS:
            column = table.column(signal.name).combine_chunks()
            if signal.axis is Axis.SCALAR:
                if signal.name == "validation_loss":
                    self._evaluated = column.is_valid().to_numpy(zero_copy_only=False)
                self._scalars[signal.name] = column.to_numpy(zero_copy_only=False)
            else:
                lengths = column.value_lengths().to_numpy(zero_copy_only=False)
                begins = np.concatenate([[0], np.cumsum(lengths)])
                self._lists[signal.name] = column.flatten().to_numpy(zero_copy_only=False), begins

    def trace(self, run_id: str, start: int, stop: int) -> Trace:
        """Rows start to before stop as the telemetry of a run."""
        rows = stop - start
        signals = {name: values[start:stop].astype(np.float32) for name, values in self._scalars.items()}
        for name, (values, begins) in self._lists.items():
            signals[name] = values[begins[start] : begins[stop]].reshape(rows, -1)
        ordered = {signal.name: signals[signal.name] for signal in SIGNALS}
        return Trace(run_id, ordered, self._evaluated[start:stop].copy())


Traces = Mapping[str, Trace]

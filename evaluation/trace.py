"""The telemetry of one run in memory: one array a signal, a row a step."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from trainwreck.evaluation.schema import EVALUATIONS, SIGNALS, Axis, telemetry_schema

SCALARS = tuple(signal.name for signal in SIGNALS if signal.axis is Axis.SCALAR)
LISTS = tuple(signal.name for signal in SIGNALS if signal.axis is not Axis.SCALAR)


@dataclass
class Trace:
    """Signals of one run: [S] for scalars, [S, K] for the others, float32.

    `validation_loss` is NaN where there was no evaluation; `evaluated` tells those steps apart
    from an evaluation that gave NaN. `fresh_loss` is NaN there too, and at every step of a run
    without a second held-out set.
    """

    run_id: str
    signals: Mapping[str, np.ndarray]
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
        table = table.select(["run_id", *SCALARS, *LISTS])  # a KeyError for one that is missing
        return Columns(table.select).trace(table.column("run_id")[0].as_py(), 0, len(table))

    def finite(self) -> bool:
        """Whether the training loss is finite at every step."""
        return bool(np.isfinite(self.signals["loss"]).all())

    def final_loss(self) -> float:
        """The last validation loss; NaN where the run ended without one or with a non-finite training loss."""
        _, values = self.evaluations
        ended_well = len(self) > 0 and bool(np.isfinite(self.signals["loss"][-1]))
        return float(values[-1]) if len(values) and ended_well else float("nan")


class Columns:
    """Telemetry of several runs as arrays, out of which each is cut; decoding once what they share is faster.

    read: gives the table of some columns. The lists are most of the work and few detectors ask for one,
    so that they are read with the first that is asked for.
    """

    def __init__(self, read: Callable[[list[str]], pa.Table]) -> None:
        self._read = read
        table = read(list(SCALARS))
        self._scalars = {name: table.column(name).to_numpy() for name in SCALARS}
        self._evaluated = table.column("validation_loss").is_valid().to_numpy()
        self._lists: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # numbers, and where those of each row begin

    def trace(self, run_id: str, start: int, stop: int) -> Trace:
        """Rows start to before stop as the telemetry of a run."""
        scalars = {name: values[start:stop].astype(np.float32) for name, values in self._scalars.items()}
        return Trace(run_id, _Signals(scalars, self, start, stop), self._evaluated[start:stop].copy())

    def lists(self, name: str, start: int, stop: int) -> np.ndarray:
        """A signal of several numbers a row, [stop - start, K]."""
        if not self._lists:
            table = self._read(list(LISTS))
            for column in LISTS:
                values = table.column(column).combine_chunks()
                begins = np.concatenate([[0], np.cumsum(values.value_lengths().to_numpy())])
                self._lists[column] = values.flatten().to_numpy(), begins
        numbers, begins = self._lists[name]
        return np.asarray(numbers[begins[start] : begins[stop]]).reshape(stop - start, -1)


class _Signals(Mapping[str, np.ndarray]):
    """Signals of a run in the order of the schema; lists are cut out when they are asked for."""

    def __init__(self, scalars: dict[str, np.ndarray], columns: Columns, start: int, stop: int) -> None:
        self._held, self._columns, self._start, self._stop = scalars, columns, start, stop

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._held:
            if name not in LISTS:
                raise KeyError(name)
            self._held[name] = self._columns.lists(name, self._start, self._stop)
        return self._held[name]

    def __iter__(self) -> Iterator[str]:
        return (signal.name for signal in SIGNALS)

    def __len__(self) -> int:
        return len(SIGNALS)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)  # a copy, or another process, has no file to read from


Traces = Mapping[str, Trace]

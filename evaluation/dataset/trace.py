"""The telemetry of one run in memory: one array a signal, a row a step."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwreck.evaluation.dataset.schema import (
    ADDED_SIGNALS,
    EVALUATIONS,
    SIGNALS,
    Axis,
    column_type,
    telemetry_schema,
)
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.short_forms import AsText

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

NO_STEPS = np.zeros(0, int)

GAPS = (*EVALUATIONS, *ADDED_SIGNALS)  # whose missing values say nothing of where the others are
SCALARS = tuple(signal.name for signal in SIGNALS if signal.axis is Axis.SCALAR)
LISTS = tuple(signal.name for signal in SIGNALS if signal.axis is not Axis.SCALAR)


@dataclass(repr=False)
class Trace(AsText):
    """Signals of one run: [S] for scalars, [S, K] for the others, float32.

    `validation_loss` is NaN where there was no evaluation; `evaluated` tells those steps apart
    from an evaluation that gave NaN. `fresh_loss` is NaN there too, and at every step of a run
    without a second held-out set. So are the signals of `schema.ADDED_SIGNALS` where a run has nothing for them.

    A run of the lab has every signal at every step, and its steps are 0, 1, 2 ... An imported one
    has the steps and signals of its log: `logged` tells at which of the steps a signal was, where
    that is not all of them. It is NaN at the others, and one that never was is not in `signals`.

    `objective` is what a data set's run was trained for, as its context declares it; "" where that is not known.
    """

    run_id: str
    signals: Mapping[str, np.ndarray]
    evaluated: np.ndarray  # bool, [S]
    steps: np.ndarray = field(default_factory=lambda: NO_STEPS)  # int, [S], ascending; by default 0, 1, 2 ...
    logged: dict[str, np.ndarray] = field(default_factory=dict)  # bool, [S]
    objective: str = ""

    def __post_init__(self) -> None:
        if self.steps is NO_STEPS:
            self.steps = np.arange(len(self.evaluated))

    def __len__(self) -> int:
        return len(self.evaluated)

    def __getitem__(self, name: str) -> np.ndarray:
        """A signal. Raises InputError with the nearest name for one that it does not have."""
        try:
            return self.signals[name]
        except KeyError:
            raise unknown("signal", name, self.signals) from None

    def __repr__(self) -> str:
        lines = [f"run {self.run_id}: {len(self)} rows, {len(self.signals)} signals"]
        if len(self) and "loss" in self.signals:
            first, last = self["loss"][0], self["loss"][-1]
            lines.append(f"  loss {first:.4g} at step {self.steps[0]}, {last:.4g} at step {self.steps[-1]}")
        return "\n".join(lines)

    def to_pandas(self) -> "pd.DataFrame":
        """A table with a row a step, which is the index, and a column a signal; `name[0]`, ... where it is a list.

        NaN where nothing was logged, or NaN was.
        """
        import pandas as pd

        columns: dict[str, np.ndarray] = {}
        for name, values in self.signals.items():
            columns |= {name: values} if values.ndim == 1 else {f"{name}[{i}]": v for i, v in enumerate(values.T)}
        return pd.DataFrame(columns, index=pd.Index(self.steps, name="step"))

    @property
    def evaluations(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps and values of the validation loss."""
        return self.steps[self.evaluated], self.signals["validation_loss"][self.evaluated]

    def to_table(self) -> "pa.Table":
        """As in a telemetry file."""
        import pyarrow as pa

        columns: list[pa.Array] = [
            pa.array([self.run_id] * len(self), pa.string()),
            pa.array(self.steps.astype(np.int32)),
        ]
        for signal in SIGNALS:
            if signal.name in self.logged and signal.name not in self.signals:
                columns.append(pa.nulls(len(self), column_type(signal)))
                continue
            values = np.ascontiguousarray(self.signals[signal.name], dtype=np.float32)
            missing = ~self.logged[signal.name] if signal.name in self.logged else None
            if signal.name == "validation_loss":
                columns.append(pa.array(values, mask=~self.evaluated, from_pandas=False))
            elif signal.name in GAPS and signal.axis is Axis.SCALAR:
                columns.append(pa.array(values, from_pandas=True))
            elif signal.name in GAPS:
                columns.append(_lists(values, np.asarray(np.isnan(values).all(1))))
            elif signal.axis is Axis.SCALAR:
                columns.append(pa.array(values, mask=missing, from_pandas=False))
            else:
                columns.append(_lists(values, missing))
        return pa.Table.from_arrays(columns, schema=telemetry_schema())

    @classmethod
    def from_table(cls, table: "pa.Table") -> "Trace":
        """The inverse of `to_table`, for a table with the rows of one run in order."""
        table = with_added(table)
        table = table.select(["run_id", "step", *SCALARS, *LISTS])  # a KeyError for one that is missing
        return Columns(table.select).trace(table.column("run_id")[0].as_py(), 0, len(table))

    def finite(self) -> bool:
        """Whether the training loss is finite at every step."""
        return bool(np.isfinite(self.signals["loss"]).all())

    def final_loss(self) -> float:
        """The last validation loss; NaN where there is none, or it or the last training loss is not finite."""
        _, values = self.evaluations
        last = (*values[-1:], *self.signals["loss"][-1:])
        return float(last[0]) if len(values) and np.isfinite(last).all() else float("nan")


def with_added(table: "pa.Table") -> "pa.Table":
    """A table of telemetry with the columns of `schema.ADDED_SIGNALS`, null where it is from before them."""
    import pyarrow as pa

    for signal in SIGNALS:
        if signal.name in ADDED_SIGNALS and signal.name not in table.column_names:
            table = table.append_column(signal.name, pa.nulls(len(table), column_type(signal)))
    return table


def _lists(values: np.ndarray, missing: np.ndarray | None) -> "pa.ListArray":
    """A list a step, [S, K], null where `missing`."""
    import pyarrow as pa

    present = np.ones(len(values), bool) if missing is None else ~missing
    offsets = np.concatenate([[0], np.cumsum(present * values.shape[1])]).astype(np.int32)
    mask = None if missing is None else pa.array(missing)
    return pa.ListArray.from_arrays(offsets, pa.array(values[present].ravel(), from_pandas=False), mask=mask)


def _rows(name: str, lists: "pa.ListArray", rows: int) -> np.ndarray:
    """The numbers of lists of one length, [rows, K]."""
    _check_lengths(name, lists.value_lengths().to_numpy())
    numbers: np.ndarray = lists.flatten().to_numpy(zero_copy_only=False)
    return numbers.reshape(rows, -1) if len(numbers) else np.zeros((rows, 0), np.float32)


def _check_lengths(name: str, lengths: np.ndarray) -> None:
    """InputError where lists of one run are of unlike lengths."""
    if len(lengths) and not (lengths == lengths[0]).all():
        raise InputError(f"telemetry: {name}: lists of unlike lengths; allowed: one length at every step of a run")


def _with_gaps(run_id: str, table: "pa.Table") -> Trace:
    """The rows of a run that does not have every signal at every step."""
    signals: dict[str, np.ndarray] = {}
    logged: dict[str, np.ndarray] = {}
    evaluated = np.ones(len(table), bool)
    for signal in SIGNALS:
        column = table.column(signal.name).combine_chunks()
        present = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
        if signal.name in EVALUATIONS and signal.name not in ADDED_SIGNALS:
            if signal.name == "validation_loss" and present is not None:
                evaluated = present
        elif present is not None:
            logged[signal.name] = present
            if not present.any():
                continue
        if signal.axis is Axis.SCALAR:
            signals[signal.name] = column.to_numpy(zero_copy_only=False).astype(np.float32)
        elif present is None:
            signals[signal.name] = _rows(signal.name, column, len(table))
        else:
            known = _rows(signal.name, column.drop_null(), int(present.sum()))
            signals[signal.name] = np.full((len(table), known.shape[1]), np.nan, np.float32)
            signals[signal.name][present] = known
    steps = table.column("step").to_numpy().astype(np.int64)
    return Trace(run_id, signals, evaluated, steps, logged)


class Columns:
    """Telemetry of several runs as arrays, out of which each is cut; decoding once what they share is faster.

    read: gives the table of some columns. The lists are most of the work and few detectors ask for one,
    so that they are read with the first that is asked for.
    """

    def __init__(self, read: Callable[[list[str]], "pa.Table"]) -> None:
        self._read = read
        table = read(["step", *SCALARS])
        self._steps = table.column("step").to_numpy().astype(np.int64)
        self._scalars = {name: table.column(name).to_numpy() for name in SCALARS}
        self._whole = not any(table.column(name).null_count for name in SCALARS if name not in GAPS)
        self._evaluated = table.column("validation_loss").is_valid().to_numpy()
        self._lists: dict[
            str, tuple[np.ndarray, np.ndarray, np.ndarray]
        ] = {}  # numbers; of each row its place, its length

    def trace(self, run_id: str, start: int, stop: int) -> Trace:
        """Rows start to before stop as the telemetry of a run."""
        if not self._whole:  # an imported log
            return _with_gaps(run_id, self._read(["step", *SCALARS, *LISTS]).slice(start, stop - start))
        scalars = {name: values[start:stop].astype(np.float32) for name, values in self._scalars.items()}
        signals = _Signals(scalars, self, start, stop)
        return Trace(run_id, signals, self._evaluated[start:stop].copy(), self._steps[start:stop].copy())

    def lists(self, name: str, start: int, stop: int) -> np.ndarray:
        """A signal of several numbers a row, [stop - start, K]."""
        if not self._lists:
            table = self._read(list(LISTS))
            for column in LISTS:
                values = table.column(column).combine_chunks()
                lengths = values.value_lengths().to_numpy(zero_copy_only=False)
                begins = np.concatenate([[0], np.cumsum(np.nan_to_num(lengths).astype(np.int64))])
                self._lists[column] = values.flatten().to_numpy(zero_copy_only=False), begins, lengths
        numbers, begins, lengths = self._lists[name]
        known = ~np.isnan(lengths[start:stop]) if name in GAPS else np.ones(stop - start, bool)
        _check_lengths(name, lengths[start:stop][known])
        found, rows = np.asarray(numbers[begins[start] : begins[stop]], np.float32), int(known.sum())
        if rows == len(known):
            return found.reshape(rows, len(found) // max(1, rows))
        width = len(found) // rows if rows else 1  # of a run without the signal the file does not say
        filled = np.full((len(known), width), np.nan, np.float32)
        filled[known] = found.reshape(rows, width)
        return filled


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

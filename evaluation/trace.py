"""The telemetry of one run in memory: one array a signal, a row a step."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from trainwreck.evaluation.schema import EVALUATIONS, SIGNALS, Axis, column_type, telemetry_schema

NO_STEPS = np.zeros(0, int)


@dataclass
class Trace:
    """Signals of one run: [S] for scalars, [S, K] for the others, float32.

    `validation_loss` is NaN where there was no evaluation; `evaluated` tells those steps apart
    from an evaluation that gave NaN. `fresh_loss` is NaN there too, and at every step of a run
    without a second held-out set.

    A run of the lab has every signal at every step, and its steps are 0, 1, 2 ... An imported one
    has the steps and signals of its log: `logged` tells at which of the steps a signal was, where
    that is not all of them. It is NaN at the others, and one that never was is not in `signals`.
    """

    run_id: str
    signals: dict[str, np.ndarray]
    evaluated: np.ndarray  # bool, [S]
    steps: np.ndarray = field(default_factory=lambda: NO_STEPS)  # int, [S], ascending; by default 0, 1, 2 ...
    logged: dict[str, np.ndarray] = field(default_factory=dict)  # bool, [S]

    def __post_init__(self) -> None:
        if self.steps is NO_STEPS:
            self.steps = np.arange(len(self.evaluated))

    def __len__(self) -> int:
        return len(self.evaluated)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.signals[name]

    @property
    def evaluations(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps and values of the validation loss."""
        return self.steps[self.evaluated], self.signals["validation_loss"][self.evaluated]

    def to_table(self) -> pa.Table:
        """As in a telemetry file."""
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
            elif signal.name in EVALUATIONS:
                columns.append(pa.array(values, from_pandas=True))
            elif signal.axis is Axis.SCALAR:
                columns.append(pa.array(values, mask=missing, from_pandas=False))
            else:
                columns.append(_lists(values, missing))
        return pa.Table.from_arrays(columns, schema=telemetry_schema())

    @classmethod
    def from_table(cls, table: pa.Table) -> "Trace":
        """The inverse of `to_table`, for a table with the rows of one run in order."""
        signals: dict[str, np.ndarray] = {}
        logged: dict[str, np.ndarray] = {}
        evaluated = np.ones(len(table), bool)
        for signal in SIGNALS:
            column = table.column(signal.name).combine_chunks()
            there = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
            if signal.name in EVALUATIONS:
                if signal.name == "validation_loss" and there is not None:
                    evaluated = there
            elif there is not None:
                logged[signal.name] = there
                if not there.any():
                    continue
            if signal.axis is Axis.SCALAR:
                signals[signal.name] = column.to_numpy(zero_copy_only=False).astype(np.float32)
            elif there is None:
                signals[signal.name] = column.flatten().to_numpy().reshape(len(table), -1)
            else:
                known = column.flatten().to_numpy().reshape(int(there.sum()), -1)
                signals[signal.name] = np.full((len(table), known.shape[1]), np.nan, np.float32)
                signals[signal.name][there] = known
        steps = table.column("step").to_numpy().astype(np.int64)
        return cls(table.column("run_id")[0].as_py(), signals, evaluated, steps, logged)

    def finite(self) -> bool:
        """Whether the training loss is finite at every step."""
        return bool(np.isfinite(self.signals["loss"]).all())

    def final_loss(self) -> float:
        """The last validation loss; NaN where the run ended without one or with a non-finite training loss."""
        _, values = self.evaluations
        ended_well = len(self) > 0 and bool(np.isfinite(self.signals["loss"][-1]))
        return float(values[-1]) if len(values) and ended_well else float("nan")


def _lists(values: np.ndarray, missing: np.ndarray | None) -> pa.ListArray:
    """A list a step, [S, K], null where `missing`."""
    there = np.ones(len(values), bool) if missing is None else ~missing
    offsets = np.concatenate([[0], np.cumsum(there * values.shape[1])]).astype(np.int32)
    mask = None if missing is None else pa.array(missing)
    return pa.ListArray.from_arrays(offsets, pa.array(values[there].ravel(), from_pandas=False), mask=mask)


Traces = Mapping[str, Trace]

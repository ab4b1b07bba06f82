"""Labels that contradict each other, or the telemetry that they are of. A score of such runs means nothing."""

from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.dataset.schema import FAILURES, RunKind
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError

KINDS = tuple(kind.value for kind in RunKind)


def check_telemetry(run: pd.Series, trace: Trace) -> None:
    """InputError where a run's telemetry is not that of its label: its length, its steps.

    run: a row of the runs table. trace: what lies under its id.
    """
    last = int(run["last_step"])
    if len(trace) != last + 1:
        raise InputError(
            f"runs: {trace.run_id}: last_step {last} contradicts its telemetry, which has {len(trace)} rows; "
            f"allowed: {len(trace) - 1}"
        )
    wrong = np.flatnonzero(trace.steps != np.arange(last + 1))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(f"telemetry: {trace.run_id}: row {row} is of step {trace.steps[row]}; allowed: {row}")


def check_table(runs: pd.DataFrame) -> None:
    """InputError where the runs table contradicts itself over more than one column, or names what is not there."""
    twice = runs["run_id"][runs["run_id"].duplicated()]
    if len(twice):
        raise InputError(f"runs: {twice.iloc[0]}: is there twice; allowed: each run once")
    for complaint, wrong in _complaints(runs).items():
        if wrong.any():
            raise InputError(f"runs: {runs['run_id'].to_numpy()[wrong][0]}: {complaint}")


def _complaints(runs: pd.DataFrame) -> dict[str, np.ndarray]:
    """What may be wrong with a run, and which runs it is true of."""
    kind = runs["kind"].to_numpy(dtype=object)
    failing = np.isin(kind, FAILURES)
    healthy = np.isin(kind, [RunKind.HEALTHY.value, RunKind.LOOK_ALIKE.value])
    onset, last = _numbers(runs, "onset_step"), _numbers(runs, "last_step")
    cause = runs["cause"].fillna("").to_numpy(dtype=object)
    return {
        f"kind is not allowed; allowed: {', '.join(KINDS)}": ~np.isin(kind, KINDS),
        "a failing run without a cause; allowed: the scenario that was injected": failing & (cause == ""),
        "a healthy run with a cause; allowed: none": healthy & (cause != ""),
        "last_step before step 0; allowed: 0 and more": last < 0,
        "onset_step before step 0; allowed: 0 to last_step": onset < 0,
        "onset_step after last_step; allowed: 0 to last_step": failing & (onset > last),
    }


def _numbers(runs: pd.DataFrame, column: str) -> np.ndarray:
    values: Any = pd.to_numeric(runs[column])
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))

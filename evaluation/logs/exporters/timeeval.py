"""TimeEval: RUN.csv with `timestamp` (the step), a column a series, and `is_anomaly` as the last.

is_anomaly is 1 where the injected fault is in force: from the onset of a failing, compound, latent or
cured run on, to its cure. That is the cause, not its effect: the visible step is in runs.csv. A
look-alike is normal throughout. A run whose fault is not shown is neither, and is left out. An imported run is
refused: it has no injected fault.

The format has a value in every cell, so a series that was not logged at every step (the validation
losses) is left out. NaN and infinity are values of a failing run and stay; algorithms that can't take
them need them replaced.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import FAILURES, RunKind
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.exporters.cells import cell
from trainwreck.evaluation.logs.exporters.series import series

FAULTY = (*FAILURES, RunKind.LATENT.value, RunKind.CURED.value)


def write(dataset: DataSet, run_ids: Sequence[str], folder: Path, out: Path) -> dict[str, str]:
    """One CSV a run, but for those whose fault is not shown."""
    if dataset.imported:
        raise InputError(f"--to timeeval: {dataset.path} holds imported runs, without the labels that it needs")
    labelled = [run_id for run_id in run_ids if dataset.run(run_id)["kind"] != RunKind.NOT_SHOWN.value]
    if not labelled:
        raise InputError("--to timeeval: no run is left, since the fault of none is shown; allowed: other runs")
    for run_id in labelled:
        trace = dataset.trace(run_id)
        columns = [one for one in series(trace) if len(one.steps) == len(trace)]
        wrong = anomalous(dataset.run(run_id), trace.steps)
        with (folder / f"{run_id}.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["timestamp", *(one.name for one in columns), "is_anomaly"])
            for i, step in enumerate(trace.steps.tolist()):
                table.writerow([step, *(cell(one.values[i]) for one in columns), int(wrong[i])])
    return {run_id: f"{run_id}.csv" for run_id in labelled}


def anomalous(run: pd.Series, steps: np.ndarray) -> np.ndarray:
    """At which steps the fault is in force, bool [S]."""
    if run["kind"] not in FAULTY or pd.isna(run["onset_step"]):
        return np.zeros(len(steps), bool)
    cured = np.inf if pd.isna(run["cure_step"]) else run["cure_step"]
    return np.asarray((steps >= run["onset_step"]) & (steps < cured))

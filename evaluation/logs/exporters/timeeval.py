"""TimeEval: RUN.csv with `timestamp` (the step), a column a series, and `is_anomaly` as the last.

is_anomaly is 1 where the injected fault is in force: from the onset of a failing, compound, latent or
cured run on, to its cure. That is the cause, not its effect: the visible step is in runs.csv. A
look-alike is normal throughout. A run with a step that is neither is left out: where the fault is not shown, and where
the first of two faults may be cured before the second begins (`evaluation/labels/in_force.py`). An imported run is
refused: it has no injected fault.

The format has a value in every cell, so a series that was not logged at every step (the validation
losses) is left out. NaN and infinity are values of a failing run and stay; algorithms that can't take
them need them replaced.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.labels.in_force import UNKNOWN, in_force
from trainwreck.evaluation.logs.exporters.cells import cell
from trainwreck.evaluation.logs.exporters.series import series


def write(dataset: DataSet, run_ids: Sequence[str], folder: Path, out: Path) -> dict[str, str]:
    """One CSV a run, but for those with a step at which it is not known whether a fault is in force."""
    if dataset.imported:
        raise InputError(f"--to timeeval: {dataset.path} holds imported runs, without the labels that it needs")
    labels = {run_id: in_force(run := dataset.run(run_id), np.arange(run["last_step"] + 1)) for run_id in run_ids}
    labelled = [run_id for run_id, wrong in labels.items() if (wrong != UNKNOWN).all()]
    if not labelled:
        raise InputError(
            "--to timeeval: no run is left, since each has steps at which it is not known whether a fault is in force; "
            "allowed: other runs"
        )
    for run_id in labelled:
        trace = dataset.trace(run_id)
        columns = [one for one in series(trace) if len(one.steps) == len(trace)]
        with (folder / f"{run_id}.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["timestamp", *(one.name for one in columns), "is_anomaly"])
            for i, step in enumerate(trace.steps.tolist()):
                table.writerow([step, *(cell(one.values[i]) for one in columns), int(labels[run_id][i])])
    return {run_id: f"{run_id}.csv" for run_id in labelled}

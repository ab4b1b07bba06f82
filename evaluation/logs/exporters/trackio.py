"""Trackio: RUN.csv as its `import_csv` takes it: a column `step`, and every other column a metric.

A cell is empty where nothing was logged. Trackio drops NaN as it reads, and shortens names to ten
letters with a number behind equal ones; the file has both in full.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.logs.exporters.cells import cell
from trainwreck.evaluation.logs.exporters.series import by_step, series


def write(dataset: DataSet, run_ids: Sequence[str], folder: Path, out: Path) -> dict[str, str]:
    """One CSV a run."""
    for run_id in run_ids:
        trace = dataset.trace(run_id)
        names = [one.name for one in series(trace)]
        with (folder / f"{run_id}.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["step", *names])
            for step, row in by_step(trace):
                table.writerow([step, *(cell(row[name]) if name in row else "" for name in names)])
    return {run_id: f"{run_id}.csv" for run_id in run_ids}

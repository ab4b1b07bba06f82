"""From runs of a data set to another tool's files.

OUT/runs.csv   one row a run, whatever the format: what is true of it, and where it lies
OUT/...        what the tool reads; see the module of the format
"""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.errors import unknown
from trainwreck.evaluation.files import csv_cell, write_folder
from trainwreck.evaluation.logs.exporters import logged, mlflow, tensorboard, timeeval, trackio, wandb
from trainwreck.evaluation.logs.exporters.series import FACTS, facts

Exporter = Callable[[DataSet, Sequence[str], Path, Path], dict[str, str]]
"""Called with a data set, ids of runs, a folder to write in and where it will lie; gives run id to where, in it."""

EXPORTERS: dict[str, Exporter] = {
    "tensorboard": tensorboard.write,
    "wandb": wandb.write,
    "mlflow": mlflow.write,
    "trackio": trackio.write,
    "timeeval": timeeval.write,
    "logged": logged.write,
}


def export(dataset: DataSet, to: str, out: Path, run_ids: Sequence[str] = ()) -> dict[str, str]:
    """Write runs, all by default, to a folder that is new or empty; run id to where it lies in there.

    A format may leave runs out that it has no label for.

    InputError for an unknown format or run, a library that is not installed, or runs that the format
    can't hold. Nothing is written then.
    """
    if to not in EXPORTERS:
        raise unknown("--to", to, EXPORTERS)
    chosen = list(dict.fromkeys(run_ids)) or dataset.runs["run_id"].tolist()
    rows: list[dict[str, Any]] = [{"run_id": run_id, **facts(dataset.run(run_id))} for run_id in chosen]
    written: dict[str, str] = {}

    def fill(folder: Path) -> None:
        written.update(EXPORTERS[to](dataset, chosen, folder, out))
        with (folder / "runs.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, ["run_id", *FACTS, "file"], lineterminator="\n")
            table.writeheader()
            for row in rows:
                if row["run_id"] in written:
                    facts_of = row | {"file": written[row["run_id"]]}
                    table.writerow({name: csv_cell(value) for name, value in facts_of.items()})

    write_folder(out, fill)
    return written

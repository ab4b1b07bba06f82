"""Points of no return measured on another copy of a data set: on another machine, or by whoever published it.

They hold for telemetry that is bitwise the same, which is checked by checksums; of the other copy, manifest and runs
table are enough.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from trainwreck.evaluation.dataset.dataset import load, load_labels
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import write_json
from trainwreck.evaluation.labels.labelling import point_file, points_of, refuse_change


def adopt(folder: Path, source: Path) -> int:
    """Take over the points of no return of `source`, and keep those already measured; how many were taken.

    The runs table is not written: `relabel` does that. InputError, and nothing taken, where a run that has a point
    is not in `folder` or its telemetry is another.
    """
    dataset, other = load(folder), load_labels(source)
    refuse_change(dataset)
    present = points_of(folder)
    measured = other.runs[other.runs["no_return_branches"] != "{}"]
    files, others = dataset.manifest["files"], other.manifest["files"]
    for run_id, file in zip(measured["run_id"], measured["file"], strict=True):
        if run_id not in dataset.runs.index:
            raise InputError(f"from: {source}: run {run_id} is not in {folder}; allowed: labels of the same data set")
        if others[file]["sha256"] != files[dataset.run(run_id)["file"]]["sha256"]:
            raise InputError(
                f"from: {source}: telemetry of run {run_id} is not the same; allowed: labels of a data set that is "
                "bitwise the same"
            )
    wanted = measured[~measured.index.isin(list(present))]
    for row in wanted.to_dict("records"):
        write_json(point_file(folder, row["run_id"]), _point(row))
    return len(wanted)


def _point(row: Mapping[Any, Any]) -> dict[str, object]:
    step = row["no_return_step"]
    return {
        "run_id": row["run_id"],
        "no_return_step": None if pd.isna(step) else int(step),
        "monotone": bool(row["no_return_monotone"]),
        "branches": json.loads(row["no_return_branches"]),
    }

"""CSVLogger of Lightning: `metrics.csv` in a folder `version_0`, `version_1` ..., each a run.

Training and validation have rows of their own, with the same step where both were logged there.
"""

from pathlib import Path

from trainwreck.evaluation.logs.log import Asked, Log
from trainwreck.evaluation.logs.readers.csv import read_csv

NAME = "metrics.csv"


def metrics_of(folder: Path) -> list[Path]:
    """The metrics files of a version's folder, or of the versions in a folder."""
    if (folder / NAME).is_file():
        return [folder / NAME]
    return sorted(folder.glob(f"version_*/{NAME}"))


def read_lightning(files: list[Path], asked: Asked) -> list[Log]:
    """A run a file, named by its folder where there are several."""
    logs = []
    for file in files:
        for log in read_csv(file, asked, "lightning", writes_nan=True):  # several where a column `run` parts it
            log.name = "/".join(part for part in (file.parent.name if len(files) > 1 else "", log.name) if part)
            logs.append(log)
    return logs

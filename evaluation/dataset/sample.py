"""The small data set that ships with the package: data to score without training first.

It is what `trainwreck generate sample` makes and `trainwreck release` writes (`make sample`).
"""

from pathlib import Path
from typing import Any

SAMPLE = "sample"
_FOLDER = Path(__file__).parents[1] / SAMPLE


def sample() -> Path:
    """The folder of the sample, a data set like any other but not to be written to."""
    return _FOLDER


def is_sample(folder: Path) -> bool:
    """Whether a folder is that of the sample."""
    return folder.resolve() == _FOLDER.resolve()


def named(folder: Path) -> Path:
    """The sample for the word `sample`, where no folder has that name; any other folder itself."""
    return _FOLDER if str(folder) == SAMPLE and not folder.exists() else folder


def folder_of(data: Any) -> Path:
    """Where a data set is, given open, as a folder, or as "sample"."""
    return named(Path(getattr(data, "path", data)))

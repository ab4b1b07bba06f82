"""Which reader a log is for: by what it is called and by what is in it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.logs.log import Log
from trainwreck.evaluation.logs.names import Target
from trainwreck.evaluation.logs.readers import lightning, mlflow, tensorboard, trainer_state, wandb
from trainwreck.evaluation.logs.readers.csv import Table, read_csv
from trainwreck.evaluation.logs.readers.jsonl import read_jsonl

Reader = Callable[[Path, Mapping[str, Target]], list[Log]]


def _file(path: Path, format: str) -> Path:
    if not path.is_file():
        raise InputError(f"{path}: a folder is not allowed as {format}; allowed: a file")
    return path


def _lightning(path: Path, mapping: Mapping[str, Target]) -> list[Log]:
    files = [path] if path.is_file() else lightning.metrics_of(path)
    if not files:
        raise InputError(f"{path}: no {lightning.NAME} in it")
    return lightning.read_lightning(files, mapping)


def _trainer_state(path: Path, mapping: Mapping[str, Target]) -> list[Log]:
    file = path if path.is_file() else trainer_state.state_of(path)
    if file is None:
        raise InputError(f"{path}: no {trainer_state.NAME} in it")
    return trainer_state.read_trainer_state(file, mapping)


FORMATS: dict[str, Reader] = {
    "csv": lambda path, mapping: read_csv(_file(path, "csv"), mapping),
    "jsonl": lambda path, mapping: read_jsonl(_file(path, "jsonl"), mapping),
    "tensorboard": tensorboard.read_tensorboard,
    "trainer_state": _trainer_state,
    "lightning": _lightning,
    "mlflow": mlflow.read_mlflow,
    "wandb": wandb.read_wandb,
}


def read(path: Path, format: str | None = None, mapping: Mapping[str, Target] | None = None) -> list[Log]:
    """The runs of a log. format: one of `FORMATS`, by default what the path looks like.

    mapping: column to target, before the known names. InputError, with file and line, for a log that
    can't be read without guessing.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if format is not None and format not in FORMATS:
        raise unknown("--format", format, FORMATS)
    return FORMATS[format or detect(path)](path, mapping or {})


def detect(path: Path) -> str:
    """The format of a log; InputError where nothing is known about it."""
    found = _of_folder(path) if path.is_dir() else _of_file(path)
    if found is None:
        raise InputError(f"{path}: no log of a known format in it; allowed: {', '.join(FORMATS)}")
    return found


def _of_folder(path: Path) -> str | None:
    if trainer_state.state_of(path):
        return "trainer_state"
    if lightning.metrics_of(path):
        return "lightning"
    if mlflow.run_folders(path):
        return "mlflow"
    if tensorboard.event_files(path):
        return "tensorboard"
    return "wandb" if wandb.offline_files(path) else None


def _of_file(path: Path) -> str:
    if tensorboard.MARK in path.name:
        return "tensorboard"
    if path.suffix == ".wandb":
        return "wandb"
    if mlflow.is_database(path):
        return "mlflow"
    if path.name == trainer_state.NAME or path.suffix.lower() == ".json":
        return "trainer_state"
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return "jsonl"
    if path.name == lightning.NAME:
        return "lightning"
    return "wandb" if wandb.is_chart(Table(path).header) else "csv"

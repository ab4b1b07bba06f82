"""Which reader a log is for: by what it is called and by what is in it."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.files import check_regular
from trainwreck.evaluation.logs.blanks import checked_reading
from trainwreck.evaluation.logs.limits import LogLimits, Memory
from trainwreck.evaluation.logs.log import LAST_STEP, Asked, Log
from trainwreck.evaluation.logs.names import Target, signal_of
from trainwreck.evaluation.logs.readers import console, lightning, mlflow, neptune, tensorboard, trainer_state, wandb
from trainwreck.evaluation.logs.readers.csv import first_rows, read_csv
from trainwreck.evaluation.logs.readers.jsonl import read_jsonl

Reader = Callable[[Path, Asked], list[Log]]

OWN_STEPS = ("tensorboard", "mlflow")  # a step with every point


def _file(path: Path, format: str) -> Path:
    if not path.is_file():
        raise InputError(f"{path}: a folder is not allowed as {format}; allowed: a file")
    return path


def _lightning(path: Path, asked: Asked) -> list[Log]:
    files = [path] if path.is_file() else lightning.metrics_of(path)
    if not files:
        raise InputError(f"{path}: no {lightning.NAME} in it")
    return lightning.read_lightning(files, asked)


def _trainer_state(path: Path, asked: Asked) -> list[Log]:
    file = path if path.is_file() else trainer_state.state_of(path)
    if file is None:
        raise InputError(f"{path}: no {trainer_state.NAME} in it")
    return trainer_state.read_trainer_state(file, asked)


FORMATS: dict[str, Reader] = {
    "csv": lambda path, asked: read_csv(_file(path, "csv"), asked),
    "jsonl": lambda path, asked: read_jsonl(_file(path, "jsonl"), asked),
    "tensorboard": tensorboard.read_tensorboard,
    "trainer_state": _trainer_state,
    "lightning": _lightning,
    "mlflow": mlflow.read_mlflow,
    "wandb": wandb.read_wandb,
    "neptune": neptune.read_neptune,
    "text": lambda path, asked: console.read_console(_file(path, "text"), asked),
}


def read(
    path: Path,
    format: str | None = None,
    mapping: Mapping[str, Target] | None = None,
    *,
    blank: str | None = None,
    every: int | None = None,
    pattern: str | None = None,
    limits: LogLimits | None = None,
) -> list[Log]:
    """The runs of a log. format: one of `FORMATS`, by default what the path looks like.

    mapping: column to target, before the known names. blank: nan or missing, by default the rule of `blanks`. every:
    steps from one row to the next, instead of a column. pattern: regular expression of the lines of a text log.
    limits: what the log may take. InputError, with file and line, for a log that can't be read without guessing.
    """
    settings = Asked(
        mapping or {}, checked_reading(blank), _checked_every(every), _checked_pattern(pattern), Memory(limits)
    )
    check_regular(path)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if format is not None and format not in FORMATS:
        raise unknown("--format", format, FORMATS)
    if pattern is not None and format not in (None, "text"):
        raise InputError(f"--pattern: not allowed with --format {format}; allowed: of text logs")
    chosen = format or ("text" if pattern is not None else detect(path, settings.mapping, limits))
    if every is not None and (chosen in OWN_STEPS or (chosen == "neptune" and neptune.exported_files(path))):
        raise InputError(f"--every: not allowed for {path}: {chosen} has a step with every value; allowed: other logs")
    return FORMATS[chosen](path, settings)


def _checked_every(every: int | None) -> int | None:
    if every is not None and not 1 <= every <= LAST_STEP:
        raise InputError(f"--every: {every} is not allowed; allowed: 1 or more steps from one row to the next")
    return every


def _checked_pattern(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise InputError(f"--pattern: {pattern!r} is no regular expression ({error})") from None
    if not found.groupindex:
        raise InputError(f"--pattern: {pattern!r} has no named group; allowed: (?P<step>...), (?P<loss>...) ...")
    return found


def detect(path: Path, mapping: Mapping[str, Target] | None = None, limits: LogLimits | None = None) -> str:
    """The format of a log; InputError where nothing is known about it."""
    found = _of_folder(path) if path.is_dir() else _of_file(path, mapping or {}, limits)
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
    if neptune.exported_files(path):
        return "neptune"
    return "wandb" if wandb.offline_files(path) else None


def _of_file(path: Path, mapping: Mapping[str, Target], limits: LogLimits | None) -> str:
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
    if neptune.exported_files(path):
        return "neptune"
    header, *more = first_rows(path, limits) or [[]]
    if wandb.is_chart(header):
        return "wandb"
    if any(name in mapping or signal_of(name)[0] for name in header):
        return "csv"
    if console.most_lines(path, Memory(limits))[1]:
        return "text"
    alike = len(header) > 1 and all(len(cells) == len(header) for cells in more)
    return "csv" if alike or not header or path.suffix.lower() in (".csv", ".tsv") else "text"

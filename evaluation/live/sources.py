"""Which of the followers a log is for; and one for a log of which nothing is there yet."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import check_regular
from trainwreck.evaluation.live.events import Events
from trainwreck.evaluation.live.tables import Csv, Found, JsonLines
from trainwreck.evaluation.logs.limits import LogLimits
from trainwreck.evaluation.logs.names import Target
from trainwreck.evaluation.logs.readers import lightning, trainer_state
from trainwreck.evaluation.logs.readers.formats import FORMATS
from trainwreck.evaluation.logs.readers.tensorboard import MARK, event_files


class Source(Protocol):
    """Rows of a log as they come. rules: what was skipped, counted."""

    @property
    def rules(self) -> Counter[str]: ...

    def poll(self) -> Iterator[Found]: ...

    def finish(self) -> Iterator[Found]: ...

    def close(self) -> None: ...


FOLLOWED: dict[str, Callable[[Path, Mapping[str, Target], LogLimits | None], Source]] = {
    "csv": Csv,
    "jsonl": JsonLines,
    "tensorboard": Events,
}
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "trainer_state", ".wandb": "wandb", ".db": "mlflow"}


def open_log(
    path: Path, format: str | None, mapping: Mapping[str, Target], *, wait: bool, limits: LogLimits | None = None
) -> Source:
    """What follows a log. wait: it need not be there yet. InputError where it can't be followed."""
    check_regular(path)
    if format is not None:
        _refuse(format)
    found = _format(path)
    if found is not None and format is None:
        _refuse(found)
    if found is None:
        if not wait:
            what = "no log of a known format in it" if path.exists() else "no such file or folder"
            raise InputError(f"{path}: {what}; allowed: {', '.join(FOLLOWED)}")
        return Later(path, format, mapping, limits)
    chosen = format or found
    if path.is_dir() and chosen != "tensorboard":
        path = path / lightning.NAME
    return FOLLOWED[chosen](path, mapping, limits)


class Later:
    """A log whose format can't be told before there is something of it."""

    def __init__(self, path: Path, format: str | None, mapping: Mapping[str, Target], limits: LogLimits | None) -> None:
        self.path, self.format, self.mapping, self.limits = path, format, mapping, limits
        self._source: Source | None = None

    @property
    def rules(self) -> Counter[str]:
        return self._source.rules if self._source else Counter()

    def poll(self) -> Iterator[Found]:
        """Nothing until something is there."""
        if self._source is None and _format(self.path) is not None:
            self._source = open_log(self.path, self.format, self.mapping, wait=False, limits=self.limits)
        return self._source.poll() if self._source else iter(())

    def finish(self) -> Iterator[Found]:
        """As what it became."""
        return self._source.finish() if self._source else iter(())

    def close(self) -> None:
        """As what it became."""
        if self._source:
            self._source.close()


def _format(path: Path) -> str | None:
    """The format by name and content; None where nothing is there, or a folder has no log in it yet."""
    if path.is_dir():
        if (path / lightning.NAME).exists():
            return "csv"
        if trainer_state.state_of(path):
            return "trainer_state"
        return "tensorboard" if event_files(path) else None
    if not path.exists():
        return None
    return "tensorboard" if MARK in path.name else _SUFFIXES.get(path.suffix.lower(), "csv")


def _refuse(format: str) -> None:
    if format not in FOLLOWED:
        why = "is written whole, not row by row" if format in FORMATS else "is not allowed"
        raise InputError(f"--format: {format} {why}; allowed: {', '.join(FOLLOWED)}")

"""What every reader gives: the points of one run, in the order in which they were written."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.names import Choice, Target

LAST_STEP = 2**31 - 1  # what telemetry's step column holds


@dataclass
class Points:
    """Steps and values of one signal, or of one entry of a list signal."""

    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, step: int, value: float) -> None:
        """One point more; the last of a step counts, see `rules`."""
        self.steps.append(step)
        self.values.append(value)


@dataclass
class Log:
    """One run as its log has it. files: what was read, for the record. rules: how often the reader had to bend."""

    name: str  # tells the runs of one source apart, empty where it has one
    format: str
    files: list[Path]
    choice: Choice
    points: dict[Target, Points]
    rules: Counter[str] = field(default_factory=Counter)

    @property
    def place(self) -> str:
        """What an error calls it."""
        return f"{self.files[0]}" + (f" ({self.name})" if self.name else "")


def checked_step(step: int, place: str) -> int:
    """The step; InputError for one that no run can have."""
    if not 0 <= step <= LAST_STEP:
        raise InputError(f"{place}: step {step} is not allowed; allowed: 0 to {LAST_STEP}")
    return step

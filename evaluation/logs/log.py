"""What every reader is told, and what it gives: the points of one run, in the order in which they were written."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.limits import POINT, Memory
from trainwreck.evaluation.logs.names import Choice, Target

LAST_STEP = 2**31 - 1  # what telemetry's step column holds


@dataclass(frozen=True)
class Asked:
    """What is said of the logs on the command line.

    mapping: column to target, before the known names. blank: nan or missing, None for the rule of `blanks`.
    every: the log has no step, its rows are so many steps apart. pattern: what the lines of a text log look like.
    memory: what is counted for the log, with its limits.
    """

    mapping: Mapping[str, Target] = field(default_factory=dict)
    blank: str | None = None
    every: int | None = None
    pattern: re.Pattern[str] | None = None
    memory: Memory = field(default_factory=Memory)


@dataclass
class Blanks:
    """What became of the blank cells of a log.

    rule: nan or missing as asked, or `rule`. nan, missing: signal to cells read so. rows: rows at the end of the log
    in which no signal of the model has a value. since: place and step of the first of them. why: on what grounds.
    """

    rule: str
    nan: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    since: tuple[str, int] | None = None
    why: str = ""


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
    """One run as its log has it. files: what was read, for the record. rules: how often the reader had to bend.

    bare: steps at the end of the log that have no value of any signal. blanks: None where the format has no cells.
    """

    name: str  # tells the runs of one source apart, empty where it has one
    format: str
    files: list[Path]
    choice: Choice
    points: dict[Target, Points]
    rules: Counter[str] = field(default_factory=Counter)
    bare: list[int] = field(default_factory=list)
    blanks: Blanks | None = None

    @property
    def bytes(self) -> int:
        """Memory that its points take, about."""
        return POINT * sum(len(points.steps) for points in self.points.values())

    @property
    def place(self) -> str:
        """What an error calls it."""
        return f"{self.files[0]}" + (f" ({self.name})" if self.name else "")


def checked_step(step: int, place: str) -> int:
    """The step; InputError for one that no run can have."""
    if not 0 <= step <= LAST_STEP:
        raise InputError(f"{place}: step {step} is not allowed; allowed: 0 to {LAST_STEP}")
    return step

"""What a measurement gives: rows of numbers, how they were taken, and where."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from trainwreck.evaluation.files import write_json, write_text
from trainwreck.evaluation.short_forms import AsText, few
from trainwreck.scenarios.training.environment import environment, processor_kind, slug

SPEED = "bench/"  # how the names of measurements of speed begin
ON_CUDA = (f"{SPEED}attention", f"{SPEED}cuda")


@dataclass(frozen=True)
class Limit:
    """What a measurement comes up against: in words, and the numbers that the words rest on.

    heading: what it asks, as the page has it; how far the measurement is from what can't be beaten, if nothing else.
    """

    text: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    heading: str = "How far from the limit"


@dataclass(frozen=True)
class Goal:
    """What was asked of a measurement: `what` at least, or of a cost at most, so many times its peer.

    asked, measured: the ratio as it should be and as it is.
    """

    what: str
    peer: str
    asked: float
    measured: float
    least: bool = True

    @property
    def met(self) -> bool:
        """Whether the measured ratio is what was asked for."""
        return self.measured >= self.asked if self.least else self.measured <= self.asked

    def sentence(self) -> str:
        """In words."""
        return (
            f"Asked for: {self.what} {self.bound}; measured: {self.measured:.2f} x, {'met' if self.met else 'not met'}."
        )

    @property
    def bound(self) -> str:
        """What the ratio should be."""
        return f"at {'least' if self.least else 'most'} {self.asked:g} x {self.peer}"


@dataclass(frozen=True)
class Bars:
    """Which column a table's plot shows, and which of its rows are peers. log: the axis is logarithmic."""

    column: str
    peers: tuple[str, ...] = ()
    log: bool = False


@dataclass(frozen=True, repr=False)
class Table(AsText):
    """columns: of `rows`. how: what was done, in words; command: what makes it again.

    picture: file name of the plot that goes with the record, empty without one. bars: what it shows, where it has
    bars. goals: what was asked for, where something was.
    """

    name: str
    title: str
    how: str
    command: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    picture: str = ""
    bars: Bars | None = None
    limit: Limit | None = None
    goals: tuple[Goal, ...] = ()

    def __repr__(self) -> str:
        return few(self.text().splitlines())

    def text(self) -> str:
        """Title, Markdown table, how it was taken, and what it comes up against."""
        parts = [f"# {self.title}", markdown(self.columns, self.rows), self.how]
        if self.limit is not None:
            numbers = markdown(self.limit.columns, self.limit.rows)
            parts += [f"## {self.limit.heading}", numbers, self.limit.text]
        if self.goals:
            parts.append(" ".join(goal.sentence() for goal in self.goals))
        return "\n\n".join([*parts, f"Made by `{self.command}`."])

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        facts: dict[str, Any] = {
            "name": self.name,
            "title": self.title,
            "how": self.how,
            "command": self.command,
            "rows": _by_column(self.columns, self.rows),
        }
        if self.goals:
            facts["goals"] = [asdict(goal) for goal in self.goals]
        if self.limit is not None:
            facts["limit"] = {"text": self.limit.text, "rows": _by_column(self.limit.columns, self.limit.rows)}
        return facts

    def record(self, results: Path) -> Path:
        """Write README, numbers and environment to a folder of the table's name, and return it.

        A measurement of speed has one by device, so that no record replaces another's.
        """
        folder = results / self.name
        if self.name.startswith(SPEED):
            folder /= slug(torch.cuda.get_device_name()) if self.name in ON_CUDA else processor_kind()
        text = self.text() + "\n"
        if self.picture:
            text += f"\n![{self.title}]({self.picture})\n"
        write_text(folder / "README.md", text)
        write_json(folder / "result.json", self.to_dict())
        write_json(folder / "environment.json", environment())
        return folder


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table; numbers that are not whole have three digits after the point."""
    head = "| " + " | ".join(columns) + " |\n|" + "---|" * len(columns)
    return "\n".join([head, *("| " + " | ".join(_cell(c) for c in row) + " |" for row in rows)])


def _by_column(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)

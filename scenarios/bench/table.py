"""What a measurement gives: rows of numbers, how they were taken, and where."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainwreck.evaluation.files import write_json, write_text
from trainwreck.evaluation.progress import Tick
from trainwreck.scenarios.training.environment import environment


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


@dataclass(frozen=True)
class Table:
    """columns: of `rows`. how: what was done, in words; command: what makes it again.

    picture: file name of the plot that goes with the record, empty without one. bars: what it shows, where it is
    one of `bars.py`. goals: what was asked for, where something was.
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

    def record(self, results: Path) -> None:
        """Write README, numbers and environment to a folder of the table's name."""
        folder = results / self.name
        text = self.text() + "\n"
        if self.picture:
            text += f"\n![{self.title}]({self.picture})\n"
        write_text(folder / "README.md", text)
        write_json(folder / "result.json", self.to_dict())
        write_json(folder / "environment.json", environment())


def measure(what: str, tick: Tick, *, record: bool = False) -> Table:
    """Run a measurement by its name on the command line. record: also write it under results/."""
    from trainwreck.scenarios.bench import (
        attention,
        attention_cpu,
        attention_plot,
        bars,
        compiled,
        cuda,
        fidelity,
        footprint,
        fused,
        harness,
        index,
        language,
        reliability,
        replay,
        reproducers,
        score,
        sweep,
        train,
    )

    runs: dict[str, Callable[[Tick], Table]] = {
        "train": train.against_plain_loop,
        "telemetry": train.telemetry_cost,
        "workers": train.two_workers,
        "cuda": cuda.against_plain_loop,
        "compile": compiled.against_eager,
        "language": language.parts,
        "fidelity": fidelity.beside_the_literature,
        "attention": attention.against_peers,
        "attention-cpu": attention_cpu.against_sdpa,
        "fused": fused.against_reference,
        "replay": replay.loading,
        "score": score.against_tsb_ad,
        "generate": sweep.against_trainers,
        "harness": harness.costs,
        "footprint": footprint.against_estimates,
        "reliability": reliability.under_faults,
        "reproducers": reproducers.every_program,
    }
    table = runs[what](tick)
    if record:
        table.record(Path("results"))
        if table.picture:
            save = bars.save if table.bars else attention_plot.save
            save(table, Path("results") / table.name / table.picture)
        if table.name.startswith("bench/"):
            index.write(Path("results/bench"))
    return table


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table; numbers that are not whole have three digits after the point."""
    head = "| " + " | ".join(columns) + " |\n|" + "---|" * len(columns)
    return "\n".join([head, *("| " + " | ".join(_cell(c) for c in row) + " |" for row in rows)])


def _by_column(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)

"""What a measurement gives: rows of numbers, how they were taken, and where."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwreck.evaluation.files import write_json, write_text
from trainwreck.evaluation.progress import Tick
from trainwreck.scenarios.process import environment


@dataclass(frozen=True)
class Table:
    """columns: of `rows`. how: what was done, in words; command: what makes it again.

    picture: file name of the plot that goes with the record, empty without one.
    """

    name: str
    title: str
    how: str
    command: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    picture: str = ""

    def text(self) -> str:
        """Title, Markdown table and how it was taken."""
        head = "| " + " | ".join(self.columns) + " |\n|" + "---|" * len(self.columns)
        body = "\n".join("| " + " | ".join(_cell(c) for c in row) + " |" for row in self.rows)
        return f"# {self.title}\n\n{head}\n{body}\n\n{self.how}\n\nMade by `{self.command}`."

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {
            "name": self.name,
            "title": self.title,
            "how": self.how,
            "command": self.command,
            "rows": [dict(zip(self.columns, row, strict=True)) for row in self.rows],
        }

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
        attention_plot,
        fidelity,
        footprint,
        fused,
        harness,
        language,
        load,
        reliability,
        reproducers,
        train,
    )

    runs: dict[str, Callable[[Tick], Table]] = {
        "train": train.against_plain_loop,
        "telemetry": train.telemetry_cost,
        "workers": train.two_workers,
        "cuda": train.on_cuda,
        "language": language.parts,
        "fidelity": fidelity.beside_the_literature,
        "attention": attention.against_peers,
        "fused": fused.against_reference,
        "load": load.loading,
        "harness": harness.costs,
        "footprint": footprint.against_estimates,
        "reliability": reliability.under_faults,
        "reproducers": reproducers.every_program,
    }
    table = runs[what](tick)
    if record:
        table.record(Path("results"))
        if table.picture:
            attention_plot.save(table, Path("results") / table.name / table.picture)
    return table


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)

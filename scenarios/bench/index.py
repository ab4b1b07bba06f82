"""The page before the pages of benchmarks: what was asked for, what is measured, and what waits for a device."""

from pathlib import Path
from typing import Any

from trainwreck.evaluation.files import read_json, write_text
from trainwreck.scenarios.bench.table import Goal, markdown

ON_CUDA = ("attention", "cuda", "fused")
HEAD = """# Speed: what was asked for, and what is measured

Every ratio was taken in one run beside its peer. Each page says how far it is from what the machine could do at
best, and why, with the measurement that shows it."""


def write(folder: Path) -> None:
    """Write README.md over the records in the folder's folders."""
    found = {path.parent.name: path.parent for path in sorted(folder.glob("*/result.json"))}
    write_text(folder / "README.md", page({name: read(path) for name, path in found.items()}))


def read(folder: Path) -> dict[str, Any]:
    """What a record says, and where it was taken."""
    record: dict[str, Any] = read_json(folder / "result.json")
    return record | {"environment": read_json(folder / "environment.json")}


def page(records: dict[str, dict[str, Any]]) -> str:
    """records: of `read`, by the name of the measurement."""
    rows = []
    for name, record in records.items():
        for goal in (Goal(**facts) for facts in record.get("goals", ())):
            rows.append(
                (f"[{name}]({name}/README.md)", goal.what, goal.bound, f"{goal.measured:.2f} x", _word(goal.met))
            )
    parts = [HEAD]
    if rows:
        parts.append(markdown(("page", "what", "asked for", "measured", "met"), rows))
    parts += ["## All pages", "\n".join(_line(name, record) for name, record in records.items())]
    missing = [f"`{name}`" for name in ON_CUDA if name not in records]
    if missing:
        parts.append(f"Not measured yet, since they need a CUDA device (`make gpu`): {', '.join(missing)}.")
    return "\n\n".join(parts) + "\n"


def _line(name: str, record: dict[str, Any]) -> str:
    where = record["environment"]
    device = ", ".join(where["gpus"]) if name in ON_CUDA else where["processor"]
    return f"- [{name}]({name}/README.md): {record['title']} ({device})."


def _word(met: bool) -> str:
    return "yes" if met else "no"

"""Every scenario's exported program, run as anyone would run it, beside the lab's own runs; a record by processor."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from trainwreck.evaluation.files import read_json, write_text
from trainwreck.evaluation.progress import Tick
from trainwreck.scenarios.bench.table import Table, markdown
from trainwreck.scenarios.reproducers.agreement import CLOSE, Agreement, check
from trainwreck.scenarios.reproducers.margin import OFF
from trainwreck.scenarios.spec.registry import scenarios
from trainwreck.scenarios.training.environment import processor

NAME = "reproducers"
# Which instructions PyTorch's own kernels and oneDNN use: other ones round elsewhere, as another processor does.
VARIABLES = {"ATEN_CPU_CAPABILITY": "aten", "ONEDNN_MAX_CPU_ISA": "onednn"}
COLUMNS = (
    "scenario", "exit code", "gap", "steady", "seconds", "lines", "printed", "agreement", "steps within",
    "largest difference", "of the final loss",
)  # fmt: skip
HOW = (
    "Each file was run by itself, {limits}. Exit code 0: the signature of the proof holds on the faulty run and not on "
    "the twin, and the cured run ends within the proof's tolerance of the twin (of a look-alike: it ends as its twin "
    "does). gap: how far those two final losses are apart, in tolerances. steady: the signature is the same with every "
    "signal off by {off:.0%}. seconds: of one core, for the twin, the faulty and the cured run together, start of "
    "Python included. printed: a hash of what it printed. Then the differences from the lab's own runs of the same "
    "setup and seed, in nats, where both are finite; empty where they were not compared. float: every training loss of "
    "every run, to the last step, is within {close:g} of the lab's; signature: rounding has led some run further away "
    "than that, after so many steps, and what is said of it holds all the same."
)
HEAD = """# Exported programs, by processor and setting

Each column is a record of one processor and one choice of vector instructions: its exit code for each program (0:
the failure is there and its cure works) and the gap of the final losses that must agree, in tolerances. {same}"""


def setting() -> str:
    """Where programs run here: processor, instructions, and what the environment limits them to."""
    parts = [processor(), torch.backends.cpu.get_cpu_capability()]
    parts += [f"{short}-{os.environ[name]}" for name, short in VARIABLES.items() if name in os.environ]
    return re.sub(r"[^a-z0-9.]+", "-", " ".join(parts).lower()).strip("-")


def every_program(tick: Tick, ids: Sequence[str] | None = None, *, beside_lab: bool = True) -> Table:
    """All programs, or some; what was run before, of the same text and under the same setting, is not run again."""
    every = list(scenarios())
    ids = every if ids is None else ids
    where = setting()
    found = []
    for done, id in enumerate(ids):
        found.append(check(id, kept(where), beside_lab=beside_lab))
        tick(done + 1, len(ids), id)
    limits = [f"`{name}={os.environ[name]}`" for name in VARIABLES if name in os.environ]
    return table(where, found, len(every), " and ".join(limits))


def kept(where: str) -> Path:
    """The folder of the programs that were run under a setting."""
    return Path("results/runs") / NAME / where


def table(where: str, found: Sequence[Agreement], every: int, limits: str = "") -> Table:
    """A record. where: the setting; every: how many programs there are; limits: environment variables, in words."""
    good = sum(one.exit_code == 0 for one in found)
    missing = "" if len(found) == every else f" ({every - len(found)} of {every} were not run)"
    return Table(
        name=f"{NAME}/{where}",
        title=f"Exported programs on {where}: {good} of {len(found)} exit with 0{missing}",
        how=HOW.format(
            limits=f"with {limits}" if limits else "with every instruction of the processor", off=OFF, close=CLOSE
        ),
        command=" ".join([*limits.replace("`", "").split(" and "), "trainwreck bench reproducers --record"]).strip(),
        columns=COLUMNS,
        rows=tuple(_row(one) for one in found),
    )


def _row(one: Agreement) -> tuple[Any, ...]:
    gap = "-" if one.gap is None else f"{one.gap:.2f}"
    cells = (one.scenario, one.exit_code, gap, "yes" if one.steady else "no", one.seconds, one.lines, one.printed)
    if (lab := one.lab) is None:
        return (*cells, "", "", "", "")
    final = "" if lab.final is None else f"{lab.final:.1g}"
    return (*cells, lab.agreement, f"{lab.close_for} of {lab.all_steps}", f"{lab.difference:.1g}", final)


def write_index(folder: Path) -> None:
    """Write README.md over the records in the folder's folders, one column each."""
    records = {path.parent.name: read_json(path) for path in sorted(folder.glob("*/result.json"))}
    rows = {name: {row["scenario"]: row for row in record["rows"]} for name, record in records.items()}
    ids = [id for id in scenarios() if any(id in found for found in rows.values())]
    cells = [(id, *(_cell(found.get(id)) for found in rows.values())) for id in ids]
    pages = "\n".join(f"- [{name}]({name}/README.md): {record['title']}." for name, record in records.items())
    parts = [HEAD.format(same=_same(rows)), pages, markdown(("scenario", *rows), cells)]
    write_text(folder / "README.md", "\n\n".join(parts) + "\n")


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "not run"
    return f"{row['exit code']}, gap {row['gap']}" + ("" if row["steady"] == "yes" else ", not steady")


def _same(rows: dict[str, dict[str, dict[str, Any]]]) -> str:
    """How many programs print other bytes in each pair of records: a setting without effect is no test."""
    names, found = list(rows), []
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            both = rows[one].keys() & rows[other].keys()
            differ = sum(rows[one][id]["printed"] != rows[other][id]["printed"] for id in both)
            found.append(f"{one} and {other}: {differ} of {len(both)}")
    return f"Programs that print other bytes: {'; '.join(found)}." if found else ""

"""Every scenario's exported program, run as anyone would run it, beside the lab's own runs; a record by processor."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainwreck.evaluation.files import read_json, write_text
from trainwreck.evaluation.progress import Tick
from trainwreck.scenarios.bench.table import Table, markdown
from trainwreck.scenarios.reproducers.agreement import Agreement, check
from trainwreck.scenarios.reproducers.margin import CLOSE, OFF
from trainwreck.scenarios.spec.registry import scenarios
from trainwreck.scenarios.training.environment import processor_kind, slug

Rows = dict[str, dict[str, Any]]  # of a record, by scenario
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

`trainwreck reproducer ID` writes a scenario of the catalogue as one plain PyTorch file. Here each file was run whole
and by itself, on one thread, at its default seed and severity. It trains the twin, the faulty and the cured run, and
exits with 0 where the failure shows in the faulty run, does not show in the twin, and the cured run ends as the twin
does; of a look-alike, where it ends as its twin does.

Other vector instructions round differently, as another processor does, and a chaotic training amplifies that. So there
is a record for each processor and each choice of instructions, and none replaces another's.

{ran}"""
KEY = """Below, each column is a record and each row a program:

- `exit 0` or `exit 1`: the exit code of the program.
- `gap`: how far apart the two final losses are that must agree, as a share of what is allowed; over 1 the program exits
  with 1.
- `not steady`: with every recorded signal off by {off:.0%}, up or down, the signature would be judged otherwise: some
  quantity is near its bound.
- `not run`: not yet run under this setting. `trainwreck bench reproducers --record`, with the setting's variables, runs
  what is missing; it goes on where it was stopped.
- `starts`: of starts that differ in their last bits, from how many the program would exit with 0, where that was
  measured: {starts}. `trainwreck bench starts --record` measures it.

The page of a setting has seconds, lines and, where that was measured, how close a program is to the laboratory's runs.
[earlier](earlier/README.md) is a record of an earlier revision, with other settings of some scenarios."""
SUMMARY = ("setting", "instructions", "programs run", "exit 0", "not steady", "largest gap", "same bytes as the first")


def setting() -> str:
    """Where programs run here: processor, instructions, and what the environment limits them to."""
    limits = [f"{short}-{os.environ[name]}" for name, short in VARIABLES.items() if name in os.environ]
    return slug(" ".join([processor_kind(), *limits]))


def every_program(tick: Tick, ids: Sequence[str] | None = None) -> Table:
    """All programs, or some; what was run before, of the same text and under the same setting, is not run again.

    `make reproducers` compares them with the lab's runs, which takes as long again; the record has what it found.
    """
    every = list(scenarios())
    ids = every if ids is None else ids
    where = setting()
    found = []
    for done, id in enumerate(ids):
        found.append(check(id, kept(where), beside_lab=False))
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
    found = [(path.parent.name, read_json(path)) for path in folder.glob("*/result.json")]
    records = dict(sorted(found, key=lambda one: (_limits(one[1]).count("="), one[0])))
    rows = {name: {row["scenario"]: row for row in record["rows"]} for name, record in records.items()}
    every = list(scenarios())
    ids = [id for id in every if any(id in found for found in rows.values())]
    moved, moved_by = _starts(folder), sorted(folder.glob("starts/*"))
    cells = [(id, *(_cell(found.get(id)) for found in rows.values()), moved.get(id, "")) for id in ids]
    never = len(every) - len(ids)
    missing = f", of which {never} have not been run yet" if never else ""
    parts = [
        HEAD.format(ran=f"The catalogue has {len(every)} programs{missing}."),
        markdown(SUMMARY, [_summary(name, _limits(record), rows) for name, record in records.items()]),
        KEY.format(off=OFF, starts=", ".join(_linked(path) for path in moved_by) or "nowhere yet"),
        markdown(("program", *rows, "starts"), cells),
    ]
    write_text(folder / "README.md", "\n\n".join(parts) + "\n")


def _linked(record: Path) -> str:
    return f"[{record.name}](starts/{record.name}/README.md)"


def _starts(folder: Path) -> dict[str, str]:
    """By scenario, from how many starts of how many its program exits with 0, over all settings."""
    rows = [row for path in sorted(folder.glob("starts/*/result.json")) for row in read_json(path)["rows"]]
    held, count = Counter[str](), Counter[str]()
    for row in rows:
        held[row["scenario"]] += row["exit 0"]
        count[row["scenario"]] += row["starts"]
    return {id: f"{held[id]} of {count[id]}" for id in count}


def _limits(record: dict[str, Any]) -> str:
    """The variables that limited the instructions, as they stand before the command; empty without any."""
    command: str = record["command"]
    return command.partition("trainwreck ")[0].strip()


def _summary(name: str, limits: str, rows: dict[str, Rows]) -> tuple[Any, ...]:
    """A line on one record. Its last cell shows whether the setting has any effect: without one it tests nothing."""
    found, first = rows[name], next(iter(rows.values()))
    both = found.keys() & first.keys()
    same = sum(found[id]["printed"] == first[id]["printed"] for id in both)
    gaps = [(float(row["gap"]), id) for id, row in found.items() if row["gap"] != "-"]
    return (
        f"[{name}]({name}/README.md)",
        f"`{limits}`" if limits else "all",
        len(found),
        sum(row["exit code"] == 0 for row in found.values()),
        sum(row["steady"] == "no" for row in found.values()),
        "{:.2f} ({})".format(*max(gaps)) if gaps else "-",
        "-" if found is first else f"{same} of {len(both)}",
    )


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "not run"
    return f"exit {row['exit code']}, gap {row['gap']}" + ("" if row["steady"] == "yes" else ", not steady")

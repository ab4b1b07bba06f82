"""Run docs/tour.md: write its files, run its commands, put what they print into the page and their pictures beside it.

    python tests/packaging/tour.py
    python tests/packaging/tour.py --measure   # each command in a process of its own; writes results/first_hour

A block ```python title="NAME" is a file; in a block ```console each line after `$ ` is a command, and what
follows is what it prints to stdout, with `| head -N` its first N lines.
"""

import argparse
import io
import os
import re
import resource
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tour.md"
PICTURES = ROOT / "docs" / "pictures" / "tour"
BLOCK = re.compile(
    r'^```(?P<kind>python|console)(?: title="(?P<name>[^"]+)")?\n(?P<content>.*?)^```$', re.MULTILINE | re.DOTALL
)
HEAD = re.compile(r" \| head -(\d+)$")


def renewed(page: str, folder: Path) -> str:
    """The page with every output as it is now. folder: where its files go. Raises where a command fails."""

    def block(found: re.Match[str]) -> str:
        if found["kind"] == "python":
            (folder / found["name"]).write_text(found["content"], encoding="utf-8")
            return found[0]
        printed = [f"$ {command}\n{run(command, folder)}" for command in commands(found["content"])]
        return "```console\n" + "".join(printed) + "```"

    return BLOCK.sub(block, page)


def commands(block: str) -> list[str]:
    """What is typed in a block ```console."""
    return [line[2:] for line in block.splitlines() if line.startswith("$ ")]


def run(command: str, folder: Path) -> str:
    """What a command prints to stdout, in this process. An exit code of 2 raises; a watch ends with 1 at an alarm."""
    head = HEAD.search(command)
    program, *words = shlex.split(HEAD.sub("", command))
    out, err = io.StringIO(), io.StringIO()
    with chdir(folder), redirect_stdout(out), redirect_stderr(err), patch.object(sys, "argv", [program, *words]):
        try:
            if program == "python":
                runpy.run_path(words[0], run_name="__main__")
            else:
                from trainwreck.cli import main

                main()
        except SystemExit as end:
            if end.code not in (None, 0) and not (words[0] == "watch" and end.code == 1):
                raise RuntimeError(f"{command}: exit code {end.code}: {err.getvalue()}") from end
    lines = out.getvalue().splitlines()
    return "".join(line.rstrip() + "\n" for line in (lines[: int(head[1])] if head else lines))


def without_times(page: str) -> str:
    """The page without what a machine's speed decides."""
    page = re.sub(r"confined by [^\n]*", "confined by what this system has", page)
    return re.sub(r"\d+\.\d us an update", "N us an update", page)


def pictures(page: str) -> list[str]:
    """Names of the pictures that the page shows, each made by one of its commands."""
    return re.findall(r"\]\(pictures/tour/(\S+)\)", page)


MILESTONES = {  # what is reached with the first command that has this in it
    "first scorecard": "--detector zclip",
    "first picture": "picture.py",
    "own detector scored": "--detector watchdog.py:Watchdog",
    "own detector on the leaderboard": "board.py",
    "own log watched": "watch ",
    "own log diagnosed": "diagnose",
}
# Results that a notebook shows; `data`, `run`, `card` and `made` are those above them.
SHOWN = {
    "data": "trainwreck.load('sample')",
    "run": "data.trace(data.runs.query('kind == \"failing\"')['run_id'].iloc[0])",
    "card": "trainwreck.score('zclip', data)",
    "board": "trainwreck.leaderboard(data, ['zclip', 'playbook', 'nonfinite_loss'])",
    "rows": "data.xy('train', 'standard')",
    "diagnosis": "trainwreck.diagnose('sample', run.run_id)",
    "audit": "trainwreck.audit(data)",
    "differences": "trainwreck.diff(data, data)",
    "catalogue": "trainwreck.catalogue()",
    "scenarios": "trainwreck.scenarios()",
    "detectors": "trainwreck.detectors()",
    "page": "trainwreck.show('high_lr')",
    "machine": "trainwreck.doctor()",
    "alarms": "card.alarms",
    "outcomes": "card.outcomes",
    "baseline": "card.baseline",
    "point": "card.at_headline",
}


def shown() -> dict[str, object]:
    """The results of `SHOWN`, by how they are had."""
    import trainwreck

    found: dict[str, object] = {"trainwreck": trainwreck}
    for name, expression in SHOWN.items():
        found[name] = eval(expression, found)
    return {expression: found[name] for name, expression in SHOWN.items()}


def measure() -> None:
    """Run each command in a process of its own, one core each, and write results/first_hour."""
    from trainwreck.evaluation.dataset.sample import sample
    from trainwreck.scenarios.bench.table import Limit, Table

    page = PAGE.read_text(encoding="utf-8")
    rows: list[tuple[str, str, int, float, float, float]] = []
    reached = list(MILESTONES.items())
    install = len(re.search(r"^## Install\n.*?```\n(.*?)```", page, re.M | re.S)[1].split(" && ")) + 1
    spent = 0.0
    with tempfile.TemporaryDirectory() as name:
        for found in BLOCK.finditer(page):
            if found["kind"] == "python":
                (Path(name) / found["name"]).write_text(found["content"], encoding="utf-8")
                continue
            for command in commands(found["content"]):
                seconds, cpu = cost(command, Path(name))
                spent += cpu
                what = reached.pop(0)[0] if reached and reached[0][1] in command else ""
                rows.append((what, f"`{command.replace('|', '&#124;')}`", len(rows) + 1 + install, cpu, spent, seconds))
    files = sorted(path for path in sample().rglob("*") if path.is_file())
    lines = [(f"`{expression}`", len(repr(one).splitlines())) for expression, one in shown().items()]
    Table(
        name="first_hour",
        title="The first hour: what each command of the tour costs",
        how=(
            "Each command of [docs/tour.md](../../docs/tour.md) in a process of its own, on one core, without the "
            "libraries of other detectors. `commands` counts from a copy of the repository on, with the install, whose "
            "time is that of the network and is left out; `CPU in all` is from the install on. The sample that ships "
            f"with the package has {sum(path.stat().st_size for path in files):,} bytes in {len(files)} files."
        ),
        command="python tests/packaging/tour.py --measure",
        columns=("reached", "command", "commands", "CPU s", "CPU s in all", "s"),
        rows=tuple(rows),
        limit=Limit(
            text="At most 30 are allowed (`tests/packaging/test_tour.py`).",
            columns=("result", "lines"),
            rows=tuple(lines),
            heading="Lines that a result prints",
        ),
    ).record(ROOT / "results")


def cost(command: str, folder: Path) -> tuple[float, float]:
    """Seconds of the clock and of the processor that a command takes in a shell."""
    one_core = {"OMP_NUM_THREADS": "1", "LOKY_MAX_CPU_COUNT": "1", "TRAINWRECK_MONITORS": "off"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    before, began = _spent(), time.perf_counter()
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | one_core | {"PATH": path},
        capture_output=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{command}: exit code {done.returncode}: {done.stderr.decode()}")
    return time.perf_counter() - began, _spent() - before


def _spent() -> float:
    """Processor seconds of all processes of this one that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Renew the page and its pictures, or measure."""
    parser = argparse.ArgumentParser(description="Run docs/tour.md.")
    parser.add_argument("--measure", action="store_true", help="Measure each command instead.")
    if parser.parse_args().measure:
        return measure()
    with tempfile.TemporaryDirectory() as name:
        page = renewed(PAGE.read_text(encoding="utf-8"), Path(name))
        PAGE.write_text(page, encoding="utf-8")
        PICTURES.mkdir(parents=True, exist_ok=True)
        for picture in pictures(page):
            shutil.copyfile(Path(name) / picture, PICTURES / picture)


if __name__ == "__main__":
    main()

"""Command lines of every command with odd words in them: each is carried out or refused in one line.

Nothing trains for long: settings are those of a tiny model, and a command that takes minutes always has a word that is
refused. Nothing is written outside of the attempt's own folder.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from trainwreck.cli import COMMANDS, cli

pytestmark = pytest.mark.fuzz

TINY = (
    "steps=24", "model.layers=2", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2",
    "evaluation.rows=4",
)  # fmt: skip
ODD = (
    "", " ", "-1", "0", "1", "nan", "inf", "1e400", "-0.5", "9" * 30, "9" * 5000, str(2**63), "\x1b[31mred\x1b[0m",
    "\udcff", "a" * 300, "a" * 5000, "/", ".", "..", "/dev/null", "/dev/zero", "/proc/self/mem", "nowhere",
    "nowhere/at/all.json", "nowhere/a.csv/b", "${oc.env:HOME}", "${now:%Y}", "???", "*", "glob(*)", "[", "{", "'", '"',
    "a=b=c", "=", "~x", "+x=1", "--", "-", "@file", "null", "true", "1,2", "range(3)", "\u202ecba", "%s%n", "$(id)",
    "sample", "x.png", "file.csv", "empty", "full.json", "deep.json", "fifo", "loop", "file.csv:Mine", "os:system",
    "mask_missing+mask_missing", "mask_missing", "nonfinite_loss", "A.B", "\u0663", "0x10", "1_000", "1e3", "\n", "\t",
)  # fmt: skip
KEYS = (
    "optimizer.lr", "optimizer.clip", "optimizer.kind", "model.layers", "model.width", "model.heads", "model.context",
    "model.norm", "model.init.matrix_std", "data.source", "data.text", "data.rows", "data.dialect", "data.longest",
    "schedule.decay", "schedule.warmup_steps", "precision.format", "distributed.ranks", "evaluation.every", "dropout",
    "z_loss", "tail", "fault.factor", "fault.x", "lr", "model", "setup", "a@b", "optimizer.lr.x", "hydra.run.dir", "",
)  # fmt: skip
VALUES = (
    *ODD, "1e-3", "adamw", "'x", "[1,2]", "{a:1}", "1000000", "interval(0,1)", "choice(1,2)", "range(1000000000)",
    "sort(3,1)",
)  # fmt: skip
SCENARIOS = ("mask_missing", "high_lr", "benign_clean_resume", "mask_missing+high_lr", "no_such", "mask_missing+", "+")
# Commands that take minutes when nothing is wrong with them.
SLOW = {
    "audit", "bench", "compare", "confirm", "demo", "equivalence", "gallery", "label", "leaderboard", "learn",
    "release", "report", "reproduce", "rescue", "submit", "transfer", "verify",
}  # fmt: skip
REFUSED = ("--no-such-option", "--workers=nan", "--json=5")
# They would wait for a user, write into the repository, or start a cluster.
NEVER = {"--serve", "--record", "--follow", "--help", "-h"}


def commands_of() -> list[tuple[list[str], click.Command]]:
    found: list[tuple[list[str], click.Command]] = []
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        if isinstance(command, click.Group):
            found += [([name, sub], inner) for sub, inner in command.commands.items()]
        else:
            found.append(([name], command))
    return found


def words_for(rng: random.Random) -> list[str]:
    names, command = rng.choice(commands_of())
    words = [*names, *usual(rng, names[-1])]
    options = [one for one in command.params if isinstance(one, click.Option) and NEVER.isdisjoint(one.opts)]
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(len(names), len(words))
        kind = rng.randrange(6)
        if kind < 3 and options:
            option = rng.choice(options)
            spelt = rng.choice(option.opts + option.secondary_opts)
            more = [spelt] if option.is_flag else [spelt, value_of(rng, option)]
            words[at:at] = more if rng.random() < 0.9 else [f"{spelt}={rng.choice(ODD)}"]
        elif kind == 3:
            words.insert(at, rng.choice(ODD))
        elif kind == 4 and at < len(words):
            words[at] = rng.choice(ODD)
        else:
            words.insert(at, f"{rng.choice(KEYS)}={rng.choice(VALUES)}")
    if names[0] in SLOW:
        words.append(rng.choice(REFUSED))
    return [word for word in words if not word.startswith("cmd:") and word not in NEVER]


def value_of(rng: random.Random, option: click.Option) -> str:
    names = getattr(option.type, "names", None)
    if isinstance(names, tuple) and rng.random() < 0.3 and option.name != "engine":
        return str(rng.choice(names))
    return rng.choice(ODD)


def usual(rng: random.Random, name: str) -> list[str]:
    """What a command takes, mostly as it should be."""
    scenario, odd = rng.choice(SCENARIOS), rng.choice(ODD)
    known: dict[str, list[str]] = {
        "show": [scenario],
        "run": [scenario, *TINY, "--no-open"],
        "play": ["--no-open", "--runs", rng.choice(["4", odd])],
        "grade": [rng.choice(["file.csv", "full.json", "deep.json", "empty", odd])],
        "reproducer": [scenario],
        "score": [rng.choice(["sample", "empty", odd]), "--detector", rng.choice(["nonfinite_loss", odd])],
        "generate": [f"scenario={odd}", *TINY, "--out", "made", "--workers", "1", "--minutes", "0.001"],
        "import": [rng.choice(["file.csv", odd]), "--out", "made"],
        "export": [rng.choice(["sample", odd]), "--to", rng.choice(["timeeval", odd]), "--out", "made"],
        "diagnose": [rng.choice(["file.csv", "sample", odd]), *([odd] if rng.random() < 0.5 else [])],
        "watch": [rng.choice(["file.csv", odd]), "--detector", rng.choice(["nonfinite_loss", "file.csv:Mine", odd])],
        "preflight": [scenario, *TINY],
        "rescore": [rng.choice(["sample", odd]), rng.choice(["empty", "deep.json", odd])],
        "diff": [rng.choice(["empty", odd]), rng.choice(["empty", odd])],
        "list": [],
        "doctor": [],
    }
    if rng.random() < 0.1 and name == "generate":
        return [rng.choice(["full.json", "deep.json", "plan.json", odd]), "--out", "made", "--minutes", "0.001"]
    return known.get(name, [odd] * rng.randrange(3))


def fill(rng: random.Random, folder: Path) -> None:
    (folder / "file.csv").write_text("step,loss\n" + "".join(f"{i},{3 - i / 100}\n" for i in range(60)))
    (folder / "full.json").write_text(
        rng.choice(["{}", "[]", "3", '{"format": "trainwreck-plan", "runs": 3}', "9" * 5000])
    )
    (folder / "deep.json").write_text("[" * 3000 + "]" * rng.choice([3000, 0]))
    run = {"scenario": "mask_missing", "role": "faulty", "seed": 0, "size": "micro", "severity": None, "split": "test"}
    run |= {"overrides": list(TINY)} | {rng.choice(list(run)): rng.choice([*ODD[:20], None, 5, [], {}])}
    text = json.dumps({"format": "trainwreck-plan", "name": "x", "runs": [run]})
    (folder / "plan.json").write_text(text)
    (folder / "empty").mkdir()
    os.mkfifo(folder / "fifo")
    (folder / "loop").symlink_to("loop")


def apart(words: list[str], folder: Path) -> str:
    """The command line in a process of its own, as a user starts it; what is wrong with how it ends."""
    encoded = [os.fsencode(word) for word in words]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "trainwreck", *encoded], cwd=folder, capture_output=True, check=False, timeout=240,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "hangs"
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    if done.returncode not in (0, 1, 2, 3) or b"Traceback" in done.stderr:
        return f"exit code {done.returncode}: {lines[-3:]}"
    one = [line for line in lines if line.startswith("trainwreck: ")] == lines[-1:]
    return "" if done.returncode != 2 or one else f"exit code 2 without its one line: {lines[-3:]}"


def test_command_lines_are_carried_out_or_refused_in_one_line(attempts: Any, commands: Any, tmp_path: Path) -> None:
    wrong: list[str] = []
    for count, rng in enumerate(attempts()):
        folder = tmp_path / str(count) / "here"
        folder.mkdir(parents=True)
        fill(rng, folder)
        words = words_for(rng)
        found = apart(words, folder) if rng.random() < 0.04 else commands.run(words, folder).wrong
        if found:
            wrong.append(f"attempt {count} after the first seed, {[word[:60] for word in words]}: {found}")
            print(wrong[-1])
        elif {one.name for one in folder.parent.iterdir()} != {"here"}:
            wrong.append(f"attempt {count} after the first seed, {words}: wrote beside its folder")
        shutil.rmtree(folder.parent)
    assert not wrong, "\n".join(wrong)

"""Run docs/tutorial.md: write its files, run its commands, and put what they print into the page.

    python tests/packaging/tutorial.py

A block ```python NAME is a file; in a block ```console each line after `$ ` is a command, and what
follows is what it prints to stdout.
"""

import io
import re
import runpy
import shlex
import sys
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(?P<kind>python|console)(?: (?P<name>\S+))?\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)


def renewed(page: str, folder: Path) -> str:
    """The page with every output as it is now. folder: where its files go. Raises where a command fails."""

    def block(found: re.Match[str]) -> str:
        if found["kind"] == "python":
            (folder / found["name"]).write_text(found["content"], encoding="utf-8")
            return found[0]
        commands = [line[2:] for line in found["content"].splitlines() if line.startswith("$ ")]
        printed = [f"$ {command}\n{run(command, folder)}" for command in commands]
        return "```console\n" + "".join(printed) + "```"

    return BLOCK.sub(block, page)


def run(command: str, folder: Path) -> str:
    """What a command prints to stdout, in this process. An exit code of 2 raises; a watch ends with 1 at an alarm."""
    program, *words = shlex.split(command)
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
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def without_times(page: str) -> str:
    """The page without what a machine's speed decides."""
    return re.sub(r"\d+\.\d us an update", "N us an update", page)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), Path(name)), encoding="utf-8")

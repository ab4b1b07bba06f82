"""Attempts drawn at random until the time is up: `make fuzz` for an hour, `.ci/run` for five minutes.

FUZZ_SECONDS is the time of each test (60), or FUZZ_ATTEMPTS the number of its attempts, FUZZ_SEED the seed of the first
(0, the same attempts in each run of `.ci/run`; `make fuzz` draws one). An attempt that fails names its seed:
FUZZ_SEED=<seed> begins with it. `--junitxml` has the attempts of each test; `make attack` makes a record of them.
"""

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

Attempts = Callable[[], Iterator[random.Random]]

SECONDS = 120.0  # of one command line, after which it hangs
PEAK = 4 * 2**20  # KiB of memory
CODES = (0, 1, 2, 3)
WORKER = Path(__file__).with_name("worker.py")


@pytest.fixture
def attempts(record_property: Callable[[str, object], None]) -> Iterator[Attempts]:
    """Generators of random numbers, one an attempt: FUZZ_ATTEMPTS, or for FUZZ_SECONDS and at least one."""
    first, made = int(os.environ.get("FUZZ_SEED", "0")), 0

    def drawn() -> Iterator[random.Random]:
        nonlocal made
        seconds, count = float(os.environ.get("FUZZ_SECONDS", "60")), int(os.environ.get("FUZZ_ATTEMPTS", "0"))
        end = time.monotonic() + seconds
        while made < count or (not count and (made == 0 or time.monotonic() < end)):
            print(f"attempt FUZZ_SEED={first + made}")  # pytest shows it where the attempt fails
            yield random.Random(first + made)
            made += 1

    yield drawn
    record_property("attempts", made)


class Ended(NamedTuple):
    """How a command line ended. wrong: what is wrong with that, empty where nothing is."""

    code: int | None
    out: str
    err: str
    wrong: str


class Commands:
    """`trainwreck` in a process beside this one, which is replaced when it hangs, dies or has grown."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, words: list[str], folder: Path) -> Ended:
        """A command line in a folder: no traceback, no hang, under 4 GiB, and one line where it is refused."""
        if self._process is None:
            environment = os.environ | {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "COLUMNS": "200"}
            self._process = subprocess.Popen(
                [sys.executable, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, env=environment, start_new_session=True,
            )  # fmt: skip
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"words": words, "folder": str(folder)}).encode() + b"\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], SECONDS)[0]:
            self.close()
            return Ended(None, "", "", f"hangs: no end within {SECONDS:.0f} s")
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            self.close()
            return Ended(None, "", "", f"its process died, exit code {code}")
        found: dict[str, Any] = json.loads(line)
        if found["peak"] > PEAK:
            self.close()
        return Ended(found["code"], found["out"], found["err"], _wrong(**found))

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)  # with what it has started
            self._process.communicate()
            self._process = None


def _wrong(code: object, out: str, err: str, peak: int) -> str:
    lines = err.splitlines()
    if code is None:
        return f"traceback: {' / '.join(line.strip() for line in lines[-3:])}"
    if peak > PEAK:
        return f"memory: {peak / 2**20:.1f} GiB"
    if code not in CODES:
        return f"exit code {code}"
    if code == 2 and [line for line in lines if line.startswith("trainwreck: ")] != lines[-1:]:
        return f"exit code 2 without its one line: {lines[-3:]}"
    odd = {c for c in out + err if not c.isprintable() and c not in "\n"}
    return f"control characters in what is printed: {sorted(odd)}" if odd else ""


@pytest.fixture
def commands() -> Iterator[Commands]:
    """`trainwreck` in a process beside this one."""
    made = Commands()
    yield made
    made.close()

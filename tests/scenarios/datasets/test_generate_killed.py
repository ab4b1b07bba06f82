"""`generate`, killed with its workers at random moments, goes on each time and ends with the same bytes.

KILLS is the number of kills (20). The command line begins in a process that has imported torch already, forked for each
start, so that a kill costs the work that it interrupts and no more.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections import Counter
from time import monotonic
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.scenarios.datasets.plans import resolve

KILLS = int(os.environ.get("KILLS", "20"))
WORDS = (
    "scenario=mask_missing", "steps=range(22,30)", "model.width=16", "model.heads=2", "model.context=16",
    "data.rows=2", "evaluation.rows=4",
)  # fmt: skip
# Answers each command line with the process that carries it out, and then with how that ended.
FORKS = """
import json, os, sys
import trainwreck.scenarios.datasets.generate, trainwreck.scenarios.training.loop
from trainwreck.cli import main
for line in sys.stdin:
    process = os.fork()
    if process == 0:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(2, 1)
        sys.argv = ["trainwreck", *json.loads(line)]
        main()
        os._exit(0)
    print(process, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


class Forks:
    """Starts command lines in processes that are forked, each the first of a group."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}, bufsize=0,
        )  # fmt: skip

    def run(self, words: list[str], seconds: float | None) -> int:
        """The exit code of a command line; it is killed with its group after so long."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(words).encode() + b"\n")
        group = int(self.process.stdout.readline())
        if seconds is not None and not select.select([self.process.stdout], [], [], seconds)[0]:
            os.killpg(group, signal.SIGKILL)
        return int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.communicate()


def finished(out):
    """Bundles that a resume would count, by name."""
    return {path.stem for path in (out / "bundles").glob("[!.]*.json")} if out.exists() else set()


def command(out, workers):
    return ["generate", *WORDS, "--out", str(out), "--workers", str(workers), "--json"]


@pytest.mark.slow
def test_killed_many_times(tmp_path: Any, record_property: Any) -> None:
    forks = Forks()
    whole = {}
    for workers in (1, 2):
        began = monotonic()
        assert forks.run(command(tmp_path / f"undisturbed{workers}", workers), None) == 0
        whole[workers] = monotonic() - began
    undisturbed = load(tmp_path / "undisturbed1")
    assert load(tmp_path / "undisturbed2").manifest["files"] == undisturbed.manifest["files"]
    expected = [spec.run_id for spec in resolve(list(WORDS))[1]]
    draw = np.random.default_rng(20)
    counts: Counter[str] = Counter()
    while counts["kills"] < KILLS:
        counts["data sets"] += 1
        out = tmp_path / f"killed{counts['data sets']}"
        while not (out / "manifest.json").exists():
            workers = 2 if draw.random() < 0.1 else 1
            # The last of a folder's calls are left alone once there have been enough kills.
            wait = draw.uniform(0.0, 0.8 * whole[workers]) if counts["kills"] < KILLS else None
            before = finished(out)
            code = forks.run(command(out, workers), wait)
            if code:
                assert code == -signal.SIGKILL
                counts["kills"] += 1
                counts["in the middle"] += (out / "plan.json").exists() and not (out / "manifest.json").exists()
                counts["after new bundles"] += finished(out) > before
                counts["of two workers"] += workers == 2
            assert finished(out) >= before  # what was finished stays finished
        again = load(out)  # every checksum
        assert again.manifest["files"] == undisturbed.manifest["files"]
        assert again.runs["run_id"].tolist() == expected
        assert {path.name for path in (out / "telemetry").glob("[!.]*")} == {
            path.name for path in (tmp_path / "undisturbed1" / "telemetry").iterdir()
        }
    forks.close()
    print(dict(counts))
    for name, count in counts.items():
        record_property(name, count)
    assert counts["in the middle"] >= KILLS // 4
    assert counts["after new bundles"] >= 1

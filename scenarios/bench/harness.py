"""What the harness itself costs: a row of replay with detectors that do nothing, in every way that they can run."""

import os
import shlex
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.detectors.registry import load_detector
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.replay import replay
from trainwreck.evaluation.replay.sandbox.isolated import Isolated
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.opening import isolated_builtin, open_detector
from trainwreck.scenarios.bench.table import Table
from trainwreck.scenarios.training.environment import cores

ROUNDS = 9
RUNS = 20
PROFILES = ("full", "minimal")

COMMAND = """
import json, sys

for line in sys.stdin:
    message = json.loads(line)
    answer = {"type": "verdict", "step": message.get("row", {}).get("step"), "score": 0}
    if message["type"] != "row":
        answer = {"type": "ready"} if message["type"] == "reset" else {"type": "hello", "version": 1, **SIGNALS}
    print(json.dumps(answer), flush=True)
"""


class Spent(NamedTuple):
    """Microseconds a row: on the clock, and of the harness's own processor time."""

    clock: float
    own: float


def costs(tick: Tick) -> Table:
    """Microseconds a row that the harness adds, for each way that a detector can run."""
    busy, data = os.getloadavg()[0], load(sample())
    traces = [data.trace(run_id) for run_id in data.runs.index[:RUNS]]
    for trace in traces:
        dict(trace.signals)  # out of the files, so that it is replaying alone that is measured
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ways = {name: _opened(way, stack) for name, way in _ways(Path(folder)).items()}
        spent: dict[tuple[str, str], list[Spent]] = {(way, profile): [] for way in ways for profile in PROFILES}
        for done in range(-1, ROUNDS):  # the first round counts for nothing
            for (way, profile), taken in spent.items():
                found = _round(ways[way], traces, profile)
                if done >= 0:
                    taken.append(found)
            tick(done + 1, ROUNDS, "round")
    return Table(
        name="bench/harness",
        title="What a row costs the harness, with a detector that does nothing",
        how=(
            f"{ROUNDS} rounds of each, in turn, over {RUNS} runs of the shipped sample in memory; medians, with "
            "quartiles of the clock. A row is one that the profile shows; under `minimal` that is every tenth step, "
            "and the steps between are a part of its cost. The clock includes the detector's process, where it has "
            "one; the processor time is the harness's own. `never` looks at nothing; the commands are one loop in "
            f"Python, which answers every row with 0. Processes that wanted to run at the beginning (load average): "
            f"{busy:.1f} on {cores()} cores."
        ),
        command="trainwreck bench harness --record",
        columns=("way", "profile", "us a row, clock (median)", "quartiles", "us a row, own processor (median)"),
        rows=tuple(_row(way, profile, taken) for (way, profile), taken in spent.items()),
    )


def _ways(folder: Path) -> dict[str, Any]:
    """Each way in words, to the detector; a string is a command."""
    commands = {}
    for name, signals in (("every signal", {}), ("the loss alone", {"signals": ["loss"]})):
        file = folder / f"{name.replace(' ', '_')}.py"
        file.write_text(COMMAND.replace("SIGNALS", repr(signals)), encoding="utf-8")
        commands[f"command, {name}"] = "cmd:" + shlex.join([sys.executable, "-I", "-S", str(file)])
    return {
        "in process": load_detector("never"),
        **{
            f"process of its own, batches of {batch}": isolated_builtin("never", {}, Limits(batch=batch))
            for batch in (Limits.batch, 1)
        },
        **commands,
    }


def _opened(way: Any, stack: ExitStack) -> Any:
    detector = open_detector(way) if isinstance(way, str) else way
    return stack.enter_context(detector) if isinstance(detector, Isolated) else detector


def _round(detector: Any, traces: list[Trace], profile: str) -> Spent:
    start, before, rows = perf_counter(), getrusage(RUSAGE_SELF), 0
    for trace in traces:
        alarms = replay(detector, trace, profile, known=())
        if alarms.crashed:
            raise InputError(f"bench: {alarms.status}")
        rows += len(alarms.steps)
    after = getrusage(RUSAGE_SELF)
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(1e6 * (perf_counter() - start) / rows, 1e6 * own / rows)


def _row(way: str, profile: str, taken: list[Spent]) -> tuple[Any, ...]:
    low, middle, high = np.quantile([one.clock for one in taken], (0.25, 0.5, 0.75))
    own = float(np.median([one.own for one in taken]))
    return way, profile, round(float(middle), 1), f"{low:.1f} to {high:.1f}", round(own, 1)

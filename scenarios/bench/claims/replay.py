"""What it costs to show a detector in another process one row at a time, so that no later row is in that process."""

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.detectors.registry import load_detector
from trainwreck.evaluation.leaderboard.submission import BATCH
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.replay import is_isolated, replay
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.opening import open_detector
from trainwreck.evaluation.replay.sandbox.usage import tree
from trainwreck.scenarios.bench.table import Table
from trainwreck.scenarios.bench.timing import quartiles
from trainwreck.scenarios.training.environment import cores

ROUNDS = 5
RUNS = 68  # of the sample, all it has
SOURCE = (
    "class Mine:\n    def reset(self, context): pass\n\n    def update(self, row): return (row['loss'] or 0.0) > 6.0\n"
)
ROWS = 32
BATCHED = f"own process, {ROWS} rows at a time (`score --batch {ROWS}`)"
BY_ROW = "own process, one row at a time"


def one_row_at_a_time(tick: Tick) -> Table:
    """Time a row of one detector: in this process, in another by batches, and in another row by row."""
    busy = os.getloadavg()[0]
    data = load(sample())
    traces = [data.trace(run_id) for run_id in data.by_file()[:RUNS]]
    rows = sum(len(trace.steps) for trace in traces)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        file = Path(folder) / "mine.py"
        file.write_text(SOURCE, encoding="utf-8")
        code = f"{file}:Mine"
        subjects = {
            "this process": load_detector(code),
            BATCHED: _apart(stack, code, ROWS),
            BY_ROW: _apart(stack, code, BATCH),
        }
        taken: dict[str, list[float]] = {name: [] for name in subjects}
        spent: dict[str, list[float]] = {name: [] for name in subjects}
        for done in range(-1, ROUNDS):  # the first counts for nothing
            for name, detector in subjects.items():
                start, used = perf_counter(), _cpu_seconds()
                for trace in traces:
                    replay(detector, trace)
                if done >= 0:
                    taken[name].append(1e6 * (perf_counter() - start) / rows)
                    spent[name].append(1e6 * (_cpu_seconds() - used) / rows)
            tick(done + 1, ROUNDS, "round")
    us, cpu = ({name: np.array(each) for name, each in found.items()} for found in (taken, spent))
    ratio = {name: float(np.median(each / cpu[BATCHED])) for name, each in cpu.items()}
    return Table(
        name="replay",
        title="One row at a time to a detector's process, against batches",
        how=(
            f"{ROUNDS} rounds of each, in turn: {len(traces)} runs of the shipped sample, {rows:,} rows of the profile "
            "`full`, to a detector that compares the loss with a number. CPU time is user and system time of both "
            "processes; wall time has what two processes wait for each other, and for a core. Telemetry "
            "is read and the processes are begun before. A ratio is the median over rounds of the ratio of CPU time "
            "within a round. Processes that wanted to run at the beginning (load average): "
            f"{busy:.1f} on {cores()} cores."
        ),
        command="trainwreck bench replay --record",
        columns=("where", "CPU us a row (median)", "quartiles", "wall us a row (median)", f"x {BATCHED}"),
        rows=tuple(
            (name, float(np.median(each)), quartiles(each, 1), float(np.median(us[name])), ratio[name])
            for name, each in cpu.items()
        ),
    )


def _cpu_seconds() -> float:
    """User and system time of this process and of all below it."""
    seconds = process_time()
    for pid in tree(os.getpid())[1:]:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def _apart(stack: ExitStack, code: str, batch: int) -> Any:
    """The detector in a process of its own, which ends with the stack."""
    detector = open_detector(code, Limits(batch=batch))
    assert is_isolated(detector)
    return stack.enter_context(detector)

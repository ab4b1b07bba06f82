"""What it costs to show a detector in another process one row at a time, so that no later row is in that process."""

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
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
from trainwreck.scenarios.bench.table import Table
from trainwreck.scenarios.bench.timing import quartiles
from trainwreck.scenarios.training.environment import cores

ROUNDS = 5
RUNS = 68  # of the sample, all it has
SOURCE = (
    "class Mine:\n    def reset(self, context): pass\n\n    def update(self, row): return (row['loss'] or 0.0) > 6.0\n"
)
BATCHED = f"own process, {Limits.batch} rows at a time (`score`)"
BY_ROW = "own process, one row at a time (`submit`, `confirm`)"


def one_row_at_a_time(tick: Tick) -> Table:
    """Wall time a row of one detector: in this process, in another by batches, and in another row by row."""
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
            BATCHED: _apart(stack, code, Limits.batch),
            BY_ROW: _apart(stack, code, BATCH),
        }
        taken: dict[str, list[float]] = {name: [] for name in subjects}
        for done in range(-1, ROUNDS):  # the first counts for nothing
            for name, detector in subjects.items():
                start = perf_counter()
                for trace in traces:
                    replay(detector, trace)
                if done >= 0:
                    taken[name].append(1e6 * (perf_counter() - start) / rows)
            tick(done + 1, ROUNDS, "round")
    us = {name: np.array(each) for name, each in taken.items()}
    ratio = {name: float(np.median(each / us[BATCHED])) for name, each in us.items()}
    return Table(
        name="replay",
        title="One row at a time to a detector's process, against batches",
        how=(
            f"{ROUNDS} rounds of each, in turn: {len(traces)} runs of the shipped sample, {rows:,} rows of the profile "
            "`full`, to a detector that compares the loss with a number. Wall time, since two processes take turns; "
            "telemetry is read and the processes are begun before. A ratio is the median over rounds of the ratio "
            "within a round. Processes that wanted to run at the beginning (load average): "
            f"{busy:.1f} on {cores()} cores."
        ),
        command="trainwreck bench replay --record",
        columns=("where", "us a row (median)", "quartiles", f"x {BATCHED}"),
        rows=tuple((name, float(np.median(each)), quartiles(each, 1), ratio[name]) for name, each in us.items()),
    )


def _apart(stack: ExitStack, code: str, batch: int) -> Any:
    """The detector in a process of its own, which ends with the stack."""
    detector = open_detector(code, Limits(batch=batch))
    assert is_isolated(detector)
    return stack.enter_context(detector)

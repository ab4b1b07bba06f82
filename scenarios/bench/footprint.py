"""What a bundle takes, memory and time, against what `memory` and `cost` say it takes: what scheduling rests on."""

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import process_time

import numpy as np

from trainwreck.evaluation.progress import Tick
from trainwreck.scenarios.bench.table import Table
from trainwreck.scenarios.catalogue import bases
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.datasets.cost import core_seconds
from trainwreck.scenarios.datasets.memory import FACTOR, MIB, needed
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.environment import prepare
from trainwreck.scenarios.training.loop import train

BASES: dict[str, Callable[[], Setup]] = {
    "chain": lambda: bases.chain(healthy(Size.MICRO)),
    "micro": lambda: healthy(Size.MICRO),
    "deep": lambda: healthy(Size.DEEP),
    "small": lambda: healthy(Size.SMALL),
    "chain, rows of 128": lambda: replaced(bases.chain(healthy(Size.MICRO)), model__context=128),
    "micro, 48 rows": lambda: replaced(healthy(Size.MICRO), data__rows=48),
}
# Base, runs, steps.
CASES = (
    ("chain", 1, 60),
    ("chain", 16, 60),
    ("chain", 64, 20),
    ("chain, rows of 128", 16, 20),
    ("micro", 1, 30),
    ("micro", 4, 30),
    ("micro", 16, 10),
    ("micro, 48 rows", 4, 30),
    ("deep", 16, 20),
    ("small", 1, 3),
    ("small", 2, 3),
)


@dataclass(frozen=True)
class Footprint:
    """peak: bytes of the process at most. seconds: of one core, for the whole bundle."""

    peak: int
    seconds: float


def footprint(base: str, runs: int, steps: int) -> Footprint:
    """Train a bundle in a process of its own, which does nothing else, and ask the system what it took."""
    command = [sys.executable, "-P", "-c", f"from {__name__} import child; child()", base, str(runs), str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Footprint(**json.loads(done.stdout.splitlines()[-1]))


def child() -> None:
    """The process: its words are base, runs and steps; it prints a `Footprint`."""
    base, runs, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    import_module("trainwreck.scenarios.datasets.generate")  # as a worker does
    prepare()
    planned = setups(base, runs, steps)
    train([Job("first", 0, replaced(planned[0], steps=1))])  # the language and the libraries, once for all bundles
    jobs = [Job(f"run{i}", i, setup) for i, setup in enumerate(planned)]
    began = process_time()
    train(jobs)
    print(json.dumps({"peak": _peak(), "seconds": process_time() - began}))


def _peak() -> int:
    """Bytes that this process was resident with at most.

    On Linux not by getrusage: what that says begins at the size of the process that started this one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def setups(base: str, runs: int, steps: int) -> list[Setup]:
    """Of a bundle of healthy runs, evaluated on few rows: these runs are short, and evaluated twice at least."""
    setup = BASES[base]()
    return [replaced(setup, steps=steps, evaluation__rows=setup.data.rows)] * runs


def against_estimates(tick: Tick) -> Table:
    """Estimates over measurements, for bundles of several shapes."""
    rows = []
    for done, (base, runs, steps) in enumerate(CASES):
        tick(done, len(CASES), base)
        took, planned = footprint(base, runs, steps), setups(base, runs, steps)
        room, seconds = needed(planned, runs), core_seconds(planned)
        rows.append(
            (base, runs, steps, took.peak / MIB, room / MIB, room / took.peak, took.seconds, seconds / took.seconds)
        )
    tick(len(CASES), len(CASES), "")
    time = np.array([row[-1] for row in rows])
    return Table(
        name="bench/footprint",
        title="What a bundle takes, against what it is taken for",
        how=(
            "Each bundle of healthy runs is trained on the CPU by a process of its own. Peak: the largest resident "
            "size of the process, everything imported; estimated: `scenarios/datasets/memory.py`, said to be right "
            f"within a factor of {FACTOR:g}. Seconds are processor time of the whole bundle in a process that has "
            "trained before; estimated: `scenarios/datasets/cost.py`, of which ratios only are of use. Their spread "
            f"here, largest over smallest: {time.max() / time.min():.2f}."
        ),
        command="trainwreck bench footprint --record",
        columns=(
            "base", "runs", "steps", "peak (MiB)", "estimated (MiB)", "estimated / peak", "seconds",
            "estimated / seconds",
        ),
        rows=tuple(rows),
    )  # fmt: skip

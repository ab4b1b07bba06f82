"""`generate` under faults: workers and parents killed, a full disk, memory taken away. Linux only.

Each round makes a small data set anew, disturbs it once at a random moment, calls the same command until it is
finished, and compares every checksum with an undisturbed one.
"""

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import sha256
from trainwreck.evaluation.progress import Tick
from trainwreck.scenarios.bench.table import Table
from trainwreck.scenarios.datasets.engines import Local
from trainwreck.scenarios.datasets.generate import PlannedBundle, bundles, train_bundle
from trainwreck.scenarios.datasets.plans import resolve
from trainwreck.scenarios.training.backend import Backend

TIMES = 10  # of each fault
WORDS = (
    "scenario=mask_missing", "steps=range(22,26)", "model.width=16", "model.heads=2", "model.context=16",
    "data.rows=2", "evaluation.rows=4",
)  # fmt: skip
LOOK = 0.02  # seconds between two looks at how far a call is
PATIENCE = 900.0  # seconds for one call
MEMORY = 2.0  # GiB for two workers, in the rounds that take memory away
HUNGRY = "TRAINWRECK_BENCH_HUNGRY"  # folder of notes of who has been hungry already
MOUTHFUL = 2**26


@dataclass(frozen=True)
class Round:
    """calls: until the data set was finished. code, said: exit code and last line of the one that was disturbed."""

    calls: int
    code: int
    said: str
    identical: bool


class Call:
    """`trainwreck generate` in a process of its own."""

    def __init__(self, out: Path, notes: str = "") -> None:
        """notes: a folder; with it workers are `hungry`."""
        command = ["-m", "trainwreck", "generate", *WORDS, "--out", str(out), "--workers", "2", "--json"]
        if notes:
            command = ["-c", f"from {__name__} import child; child()", str(out)]
        self.out = out
        self.process = subprocess.Popen(
            [sys.executable, "-P", *command],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ | {HUNGRY: notes},
        )  # fmt: skip

    def end(self) -> tuple[int, str]:
        """Exit code and last line on stderr."""
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said.strip().splitlines()[-1] if said.strip() else ""

    def wait_for(self, bundles: int) -> bool:
        """Until workers are there and so many bundles finished; False where the call ended before."""
        until = monotonic() + PATIENCE
        while self.process.poll() is None and monotonic() < until:
            if finished(self.out) >= bundles and self.workers():
                return True
            sleep(LOOK)
        return False

    def workers(self) -> list[int]:
        """Process ids."""
        try:
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
            named = {int(child): Path(f"/proc/{child}/cmdline").read_bytes() for child in children.split()}
        except OSError:  # one has just ended
            return []
        return [child for child, line in named.items() if b"LokyProcess" in line]


def finished(out: Path) -> int:
    """Bundles that a call would not train again."""
    return len(list((out / "bundles").glob("[!.]*.json")))


def child() -> None:
    """A process that generates with little memory and hungry workers. Its word is the folder of the data set."""
    module = import_module("trainwreck.scenarios.datasets.generate")
    vars(module)["train_bundle"] = hungry
    module.generate(resolve(WORDS)[1], Path(sys.argv[1]), name="sweep", engine=Local(2, int(MEMORY * 2**30)))


def hungry(bundle: PlannedBundle, out: Path, backend: Backend, width: int) -> int:
    """`train_bundle`, which takes all the memory that it is given the first time that it has a greedy bundle."""
    note = Path(os.environ[HUNGRY]) / bundle.name
    if greedy(bundle) and not note.exists():
        note.touch()
        hoard = []
        while True:
            hoard.append(bytearray(MOUTHFUL))
    return train_bundle(bundle, out, backend, width)


def greedy(bundle: PlannedBundle) -> bool:
    """Whether `hungry` takes this one's memory: one in three, by its name."""
    return int(bundle.name[1:], 16) % 3 == 0


def kill_worker(out: Path, draw: random.Random, total: int) -> tuple[int, str, int]:
    """One of the two, after some bundles; the call goes on."""
    call = Call(out)
    if call.wait_for(draw.randrange(total - 1)):
        os.kill(draw.choice(call.workers() or [call.process.pid]), signal.SIGKILL)
    return *call.end(), finish(out)


def kill_parent(out: Path, draw: random.Random, total: int) -> tuple[int, str, int]:
    """With its workers at work, which hold its stderr open: it is heard to its end once they have ended too."""
    call = Call(out)
    if call.wait_for(draw.randrange(total - 1)):
        call.process.kill()
    return *call.end(), finish(out)


def fill_disk(out: Path, draw: random.Random, total: int) -> tuple[int, str, int]:
    """The folder's file system has no room left after some bundles, and then has again."""
    with small_disk(out) as resize:
        call = Call(out)
        call.wait_for(draw.randrange(total - 1))
        resize(True, [call.process.pid, *call.workers()])
        ended = call.end()
        resize(False, [])
        calls = finish(out)
        kept = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for name, content in kept.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content)
    return *ended, calls


def take_memory(out: Path, draw: random.Random, total: int) -> tuple[int, str, int]:
    """Workers that reach the limit that they were given."""
    with tempfile.TemporaryDirectory() as notes:
        return *Call(out, notes).end(), finish(out)


# Each gives exit code and last line of the call that it disturbed, and how many more calls it took.
FAULTS: dict[str, Callable[[Path, random.Random, int], tuple[int, str, int]]] = {
    "a worker killed": kill_worker,
    "the parent killed": kill_parent,
    "a full disk": fill_disk,
    "out of memory": take_memory,
}


def finish(out: Path) -> int:
    """Call until the data set is there; how many calls that took."""
    calls = 0
    while not (out / "manifest.json").exists():
        code, said = Call(out).end()
        calls += 1
        if code:
            raise RuntimeError(f"a call that nobody disturbed ended with {code}: {said}")
    return calls


def disturbed(fault: str, out: Path, seed: int, undisturbed: Path) -> Round:
    """One round."""
    expected = load(undisturbed).manifest["files"]
    code, said, more = FAULTS[fault](out, random.Random(seed), finished(undisturbed))
    again = load(out)  # which checks every checksum
    identical = again.manifest["files"] == expected and all(
        sha256(out / name) == facts["sha256"] for name, facts in expected.items()
    )
    return Round(1 + more, code, said, identical)


def under_faults(tick: Tick, times: int = TIMES) -> Table:
    """Every fault so many times."""
    if sys.platform != "linux":
        raise InputError(f"what: 'reliability' is not allowed on {sys.platform}; allowed: Linux")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        undisturbed = Path(name) / "undisturbed"
        finish(undisturbed)
        total = finished(undisturbed)
        for number, fault in enumerate(FAULTS):
            rounds = []
            for i in range(times):
                tick(number * times + i, len(FAULTS) * times, fault)
                rounds.append(disturbed(fault, Path(name) / f"{number}-{i}", 100 * number + i, undisturbed))
            codes = sorted({one.code for one in rounds})
            rows.append(
                (
                    fault, times, ", ".join(map(str, codes)), sum(one.code == 0 for one in rounds),
                    max(one.calls for one in rounds), sum(one.identical for one in rounds),
                )
            )  # fmt: skip
    tick(len(FAULTS) * times, len(FAULTS) * times, "")
    return table(rows, total)


def table(rows: Sequence[tuple[Any, ...]], total: int) -> Table:
    """As it is printed and recorded. total: bundles."""
    hungriest = sum(greedy(bundle) for bundle in bundles(resolve(WORDS)[1]))
    return Table(
        name="reliability",
        title="generate, disturbed",
        how=(
            f"Each round generates {total} bundles with two workers ({' '.join(WORDS)}), is disturbed once, and is "
            "called again until the data set is finished. Killed: SIGKILL after a random number of finished bundles. "
            f"Full disk: {disk()}. Out of memory: {MEMORY:g} GiB for both workers, and {hungriest} of the bundles take "
            "all that their worker may have the first time; they are tried again with half as many runs side by side. "
            "Identical: every checksum of the manifest is that of a data set that nobody disturbed."
        ),
        command="trainwreck bench reliability --record",
        columns=("fault", "rounds", "exit codes", "went on by itself", "calls at most", "identical"),
        rows=tuple(rows),
    )


def disk() -> str:
    """How a disk gets full here."""
    if os.geteuid() == 0:
        return "the folder is a tmpfs of its own, shrunk to what it holds"
    return "no file may grow over 1 kB (RLIMIT_FSIZE), as mounting takes root"


@contextmanager
def small_disk(out: Path) -> Iterator[Callable[[bool, list[int]], None]]:
    """A folder with a disk of its own, and a function that leaves it no room, or no room to some processes."""
    out.mkdir()
    if os.geteuid() != 0:

        def limit(full: bool, processes: list[int]) -> None:
            for process in processes:
                with suppress(ProcessLookupError):
                    resource.prlimit(process, resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))

        yield limit
        return
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(out)]
    subprocess.run(mount, check=True)

    def resize(full: bool, processes: list[int]) -> None:
        until = monotonic() + PATIENCE
        while True:  # it may have grown since it was asked
            facts = os.statvfs(out)
            used = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
            size = max(used, facts.f_frsize) if full else 2**24
            done = subprocess.run(["mount", "-o", f"remount,size={size}", str(out)], check=monotonic() > until)
            if done.returncode == 0:
                return

    try:
        yield resize
    finally:
        subprocess.run(["umount", str(out)], check=True)

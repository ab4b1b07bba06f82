"""Starts the ranks of a group as separate processes, and receives their results.

Each rank is a fresh Python that gets its work on its standard input and answers on its standard
output. It ends when its input closes, so that none is left behind however this process ends; a rank
that dies takes the others with it, and is one clear error here.
"""

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import torch

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError, WorkerLostError
from trainwreck.scenarios.spec.job import Job

Train = Callable[..., list[Any]]
Message = tuple[int, str, Any]  # rank, kind, content
COMMAND = "from trainwreck.scenarios.training.distributed.worker import main; main()"
LOOPBACK = {"linux": "lo", "darwin": "lo0"}
LOST_PEER = 75  # the exit status of a rank that ended because another did
PATIENCE = 10.0  # seconds from the first rank that lost another until it is known which


def train_apart(
    train: Train,
    jobs: list[Job],
    enter: dict[str, Any],
    keep: Mapping[str, Any],
    options: dict[str, Any],
    progress: Callable[[int], Any] | None = None,
    watch: Callable[[Trace], Any] | None = None,
) -> list[Any]:
    """Train jobs of several ranks, those of one number of ranks side by side; one result a job, in order.

    train: `loop.train`. InputError where a device is missing; WorkerLostError where a rank died.
    """
    for job in jobs:
        job.segments  # noqa: B018  # a bad setting is reported before anything is started
    keep = {name: sorted(set(steps)) for name, steps in keep.items()}
    results: dict[int, Any] = {}
    for ranks in sorted({job.setup.distributed.ranks for job in jobs}):
        places = [i for i, job in enumerate(jobs) if job.setup.distributed.ranks == ranks]
        group = [jobs[i] for i in places]
        if ranks == 1:
            found = train(group, enter=enter, keep=keep, progress=progress, watch=watch, **options)
        else:
            found = _train_ranks(ranks, {"jobs": group, "enter": enter, "keep": keep, **options}, progress, watch)
        results |= dict(zip(places, found, strict=True))
    return [results[i] for i in range(len(jobs))]


def _train_ranks(
    ranks: int,
    work: dict[str, Any],
    progress: Callable[[int], Any] | None,
    watch: Callable[[Trace], Any] | None,
) -> list[Any]:
    """What the first rank returns."""
    if work["device"] != "cpu" and torch.cuda.device_count() < ranks:
        raise InputError(
            f"distributed.ranks: {ranks} is not allowed with {torch.cuda.device_count()} devices; "
            "allowed: as many ranks as devices, or device=cpu"
        )
    with started(ranks, work) as (_, messages):
        for _, kind, content in messages:
            if kind == "result":
                return list(content)
            if kind == "raised":
                raise content
            if kind == "progress" and progress is not None:
                progress(content)
            elif kind == "watch" and watch is not None:
                watch(content)
    raise AssertionError("messages end with a result or an error")


@contextlib.contextmanager
def started(ranks: int, work: dict[str, Any]) -> Iterator[tuple[list["subprocess.Popen[bytes]"], Iterator[Message]]]:
    """The running processes of a group, and their messages; none is left after the context."""
    processes: list[subprocess.Popen[bytes]] = []
    listeners: list[threading.Thread] = []
    received: queue.Queue[Message] = queue.Queue()
    path = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path if entry)
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    if sys.platform in LOOPBACK:  # all ranks are on this machine, and nothing listens to the outside
        environment.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK[sys.platform])
    with tempfile.TemporaryDirectory(prefix="trainwreck-") as folder:
        try:
            for rank in range(ranks):
                with _words(folder, rank).open("wb") as words:
                    process = subprocess.Popen(
                        [sys.executable, "-P", "-c", COMMAND],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=words,
                        env=environment,
                    )
                processes.append(process)
                listeners.append(threading.Thread(target=_listen, args=(rank, process, received), daemon=True))
                listeners[-1].start()
            for rank, process in enumerate(processes):
                part = {**work, "rank": rank, "ranks": ranks, "rendezvous": str(Path(folder) / "rendezvous")}
                with contextlib.suppress(BrokenPipeError):  # it has died, which the listener reports
                    assert process.stdin is not None
                    process.stdin.write(cloudpickle.dumps(part))
                    process.stdin.flush()
            yield processes, _messages(processes, received, folder)
        finally:
            for process in processes:
                process.kill()
                process.wait()
            for listener in listeners:
                listener.join()
            for process in processes:
                with contextlib.suppress(BrokenPipeError):
                    assert process.stdin is not None
                    process.stdin.close()


def _listen(rank: int, process: "subprocess.Popen[bytes]", received: "queue.Queue[Message]") -> None:
    """Pass on a rank's messages, and that it has ended. Its output is this program's own, so unpickling is safe."""
    assert process.stdout is not None
    with process.stdout as output, contextlib.suppress(EOFError, pickle.UnpicklingError):
        while True:
            kind, content = pickle.load(output)
            received.put((rank, kind, content))
    received.put((rank, "ended", process.wait()))


def _messages(
    processes: list["subprocess.Popen[bytes]"], received: "queue.Queue[Message]", folder: str
) -> Iterator[Message]:
    """Messages as they come. WorkerLostError when a rank ends without a result, naming the one that ended first."""
    patience, lost = None, 0
    while True:
        try:
            rank, kind, content = received.get(timeout=patience)
        except queue.Empty:
            raise WorkerLostError("the ranks of a distributed run lost each other") from None
        if kind == "ended" and content == 0:
            continue  # it has done its part; the first rank's result is still to come
        if kind == "ended" and content == LOST_PEER and lost < len(processes) - 1:
            patience, lost = PATIENCE, lost + 1
        elif kind == "ended":
            how = f"was killed by signal {-content}" if content < 0 else f"ended with status {content}"
            last = _words(folder, rank).read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise WorkerLostError(": ".join([f"rank {rank} of {len(processes)} {how}", *last]))
        else:
            yield rank, kind, content


def _words(folder: str, rank: int) -> Path:
    """Where a rank's standard error goes."""
    return Path(folder) / f"rank{rank}.txt"

"""Worker processes of this machine; one worker is this process itself."""

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from time import sleep

from joblib.externals.loky.process_executor import BrokenProcessPool, ProcessPoolExecutor

from trainwreck.scenarios.datasets.engines.call import Call, End, Ended, attempt
from trainwreck.scenarios.datasets.engines.engine import Engine
from trainwreck.scenarios.datasets.engines.limits import SHARE, available

WATCHED = 1.0  # seconds between two looks whether the parent is still there
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Local:
    """workers: processes; None for one a core, fewer where memory is short.

    memory: bytes for all of them together, a share of the machine's by default; of the device's where that is a GPU.
    """

    workers: int | None = None
    memory: int | None = None
    name: str = "local"

    def check(self) -> None:
        pass

    def fit(self, least: int, device: str) -> "Local":
        total = self._total(device)
        if self.workers is not None:
            return self
        from trainwreck.scenarios.training.environment import cores

        most = cores() if total is None or not least else min(cores(), total // least)
        return replace(self, workers=max(1, most))

    def share(self, device: str) -> int | None:
        total = self._total(device)
        return None if total is None else total // (self.workers or 1)

    def start(self, pieces: int) -> Engine:
        count = max(1, min(self.workers or 1, pieces))
        return Processes(count) if count > 1 else InProcess()

    def _total(self, device: str) -> int | None:
        whole = available(device)
        return self.memory or (None if whole is None else int(SHARE * whole))


class InProcess:
    """Makes calls in this process, when it is asked how they ended."""

    slots, refill, workers, doubles = 1, 0, 1, False

    def __init__(self) -> None:
        self._calls: deque[Call] = deque()

    def submit(self, calls: Sequence[Call]) -> None:
        self._calls.extend(calls)

    def ended(self, seconds: float | None) -> list[Ended]:
        call = self._calls.popleft()
        # A limit on this process would be one on whatever else its owner does with it.
        return [attempt(Call(call.ticket, call.work, call.args, call.width))]

    def cancel(self, ticket: int) -> None:
        self._calls = deque(call for call in self._calls if call.ticket != ticket)

    def close(self) -> None:
        self._calls.clear()


class Processes:
    """Processes, not threads: a worker's memory and threads are its own, and it dies alone.

    Each is an executor of its own, since one that loses a worker loses all that its other workers do.
    """

    doubles = True

    def __init__(self, count: int) -> None:
        self.slots = self.workers = count
        self.refill = count - 1
        self._idle: list[ProcessPoolExecutor] = []
        self._at_work: dict[Future[Ended], tuple[int, ProcessPoolExecutor]] = {}

    def submit(self, calls: Sequence[Call]) -> None:
        for call in calls:
            future, executor = self._begin(call)
            self._at_work[future] = (call.ticket, executor)

    def _begin(self, call: Call) -> tuple["Future[Ended]", ProcessPoolExecutor]:
        while self._idle:
            executor = self._idle.pop()
            try:
                return executor.submit(attempt, call), executor
            except BrokenProcessPool:  # it died while it had nothing to do
                _dismiss(executor)
        executor = _process()
        return executor.submit(attempt, call), executor

    def ended(self, seconds: float | None) -> list[Ended]:
        done, _ = wait(self._at_work, seconds, FIRST_COMPLETED)
        return [self._end(future) for future in done]

    def _end(self, future: "Future[Ended]") -> Ended:
        ticket, executor = self._at_work.pop(future)
        try:
            ended = future.result()
        except BrokenProcessPool:
            _dismiss(executor)
            return Ended(ticket, End.LOST, why="lost its worker, which was killed, out of memory perhaps")
        except Exception as error:  # its worker could not even read or answer it
            _dismiss(executor)
            return Ended(ticket, End.RAISED, error)
        if ended.end is End.SHORT:  # what an old process has kept is not there in a new one
            _dismiss(executor)
        else:
            self._idle.append(executor)
        return ended

    def cancel(self, ticket: int) -> None:
        for future, (mine, executor) in list(self._at_work.items()):
            if mine == ticket:
                del self._at_work[future]
                _dismiss(executor)

    def close(self) -> None:
        executors = [*self._idle, *(executor for _, executor in self._at_work.values())]
        self._idle, self._at_work = [], {}
        for executor in executors:
            _dismiss(executor)


def _process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(max_workers=1, initializer=_end_with_parent, initargs=(os.getpid(),), env=THREADS)


def _dismiss(executor: ProcessPoolExecutor) -> None:
    """Every file is whole or not there, so a worker can be killed at any moment."""
    executor.shutdown(wait=True, kill_workers=True)


def _end_with_parent(parent: int) -> None:
    """In a worker: end once the parent is gone, however it went; nobody waits for the bundle any more."""

    def watch() -> None:
        while os.getppid() == parent:
            sleep(WATCHED)
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

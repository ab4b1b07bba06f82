"""An engine whose workers compute nothing, on a clock that only they move; the dispatcher is the real one."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from trainwreck.scenarios.datasets.engines.call import Call, End, Ended


@dataclass
class Clock:
    """Seconds, as the simulation has it."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class Simulated:
    """Workers of one machine or a cluster.

    fate: how long a call takes and how it ends, by the call and the worker that makes it. start: seconds until a new
    worker, and one in the place of a dead one, can begin.
    """

    doubles = True

    def __init__(self, workers: int, fate: Callable[[Call, int], tuple[float, End]], start: float = 0.0):
        self.clock = Clock()
        self.slots = self.workers = workers
        self.refill = workers - 1
        self.fate, self.start = fate, start
        self.idle = [(i, start) for i in range(workers)]  # worker, when it can begin
        self.under_way: list[tuple[float, int, Call, float, End]] = []
        self.gone: set[int] = set()
        self.made: list[Call] = []
        self.closed = False

    def submit(self, calls: Sequence[Call]) -> None:
        assert len(calls) <= len(self.idle)
        for call in calls:
            worker, ready = min(self.idle, key=lambda one: one[1])
            self.idle.remove((worker, ready))
            seconds, end = self.fate(call, worker)
            heapq.heappush(self.under_way, (max(self.clock.now, ready) + seconds, worker, call, seconds, end))
            self.made.append(call)

    def ended(self, seconds: float | None) -> list[Ended]:
        until = float("inf") if seconds is None else self.clock.now + seconds
        while self.under_way and self.under_way[0][2].ticket in self.gone:
            heapq.heappop(self.under_way)
        if not self.under_way or self.under_way[0][0] > until:
            assert until < float("inf"), "would wait for ever"
            self.clock.now = until
            return []
        self.clock.now, worker, call, seconds, end = heapq.heappop(self.under_way)
        lost = end is not End.DONE
        self.idle.append((worker, self.clock.now + self.start * lost))
        return [Ended(call.ticket, end, call.args[0], seconds, "died" if lost else "")]

    def cancel(self, ticket: int) -> None:
        self.gone.add(ticket)
        worker = next(worker for _, worker, call, _, _ in self.under_way if call.ticket == ticket)
        self.idle.append((worker, self.clock.now + self.start))

    def close(self) -> None:
        self.closed = True


@pytest.fixture(scope="session")
def simulated() -> type[Simulated]:
    """An engine on a clock of its own."""
    return Simulated

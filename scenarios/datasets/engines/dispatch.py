"""Pieces of work to an engine's workers: the costliest first, lost ones again, slow ones twice near the end.

Workers pull: each gets a piece when it has none. A worker that dies costs its piece only, which goes to another
with half as many runs side by side (it may have been memory); only what is lost `TRIES` times with one run
at a time is given up, after all else is done. No piece's result depends on any of this.
"""

import heapq
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

from trainwreck.evaluation.errors import UnfinishedError, WorkerLostError
from trainwreck.scenarios.datasets.engines.call import Call, End, Ended, Work
from trainwreck.scenarios.datasets.engines.engine import Engine
from trainwreck.scenarios.datasets.engines.eta import Eta
from trainwreck.scenarios.datasets.engines.local import Local

TRIES = 3
# A piece is slow once it takes so many times what it should, its worker's start included, and so many seconds.
SLOW, GRACE = 2.0, 20.0
MOST_NAMED = 3


@dataclass(frozen=True)
class Piece:
    """name: for people. args: of the work. cost: in any unit. width: runs side by side at most."""

    name: str
    args: tuple[Any, ...]
    cost: float
    width: int = 1


class Result(NamedTuple):
    """What the work returned of a piece, and the seconds that the rest will take; None where they are not known."""

    piece: Piece
    value: Any
    left: float | None


@dataclass
class _Task:
    """A piece and how it goes. began: by ticket, of the calls under way. doubled: a second call was made as well."""

    piece: Piece
    width: int
    tries: int = 0
    why: str = ""
    doubled: bool = False
    began: dict[int, float] = field(default_factory=dict)


class Dispatch:
    """One plan's pieces on their way through an engine.

    share: bytes for each worker. minutes: begin no piece after so long. clock: in seconds.
    """

    def __init__(
        self,
        engine: Engine,
        work: Work,
        pieces: Sequence[Piece],
        *,
        share: int | None = None,
        minutes: float | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.engine, self.work, self.share, self.clock = engine, work, share, clock
        self.eta = Eta(engine.workers, clock)
        self.failed: list[tuple[Piece, str]] = []
        self.end = None if minutes is None else clock() + 60 * minutes
        self._waiting: list[tuple[float, int, _Task]] = []
        self._tasks: dict[int, _Task] = {}  # by ticket
        self._tickets = 0
        self._ended = 0
        self._cost = 0.0  # of what waits
        for piece in pieces:
            self._wait(_Task(piece, max(1, piece.width)))

    @property
    def unbegun(self) -> int:
        """Pieces that wait."""
        return len(self._waiting)

    def left(self) -> float | None:
        """Seconds until all is done; None where nothing is known yet."""
        now = self.clock()
        running = [(task.piece.cost, now - min(task.began.values())) for task in self._running()]
        if not self._waiting:  # of the sum there may be the last bits of a float left
            return self.eta.left(0.0, 0.0, running)
        return self.eta.left(self._cost, -self._waiting[0][0], running)

    def results(self) -> Iterator[tuple[Piece, Any]]:
        """Each piece and what came of it, as they come; what the work raises is raised at once."""
        with closing(self.engine):
            while self._waiting or self._tasks:
                self._fill()
                if not self._tasks:
                    return  # time is over
                for ended in self.engine.ended(self._patience()):
                    task = self._tasks.pop(ended.ticket, None)
                    if task is not None and self._is_done(task, ended):
                        yield task.piece, ended.value

    def _fill(self) -> None:
        """Give pieces to whoever has none."""
        calls: list[Call] = []
        room = self.engine.slots - len(self._tasks) if len(self._tasks) <= self.engine.refill else 0
        while self._waiting and len(calls) < room and not self._is_late():
            task = heapq.heappop(self._waiting)[2]
            self._cost -= task.piece.cost
            calls.append(self._call(task))
        if self.engine.doubles and not self._waiting:
            slow = sorted(((late, id(task), task) for task, late in self._lateness() if late >= 0), reverse=True)
            for _, _, task in slow[: room - len(calls)]:
                task.doubled = True
                calls.append(self._call(task))
        if calls:
            self.engine.submit(calls)

    def _call(self, task: _Task) -> Call:
        self._tickets += 1
        task.began[self._tickets] = self.clock()
        self._tasks[self._tickets] = task
        return Call(self._tickets, self.work, task.piece.args, task.width, self.share)

    def _is_done(self, task: _Task, ended: Ended) -> bool:
        elapsed = self.clock() - task.began.pop(ended.ticket)
        if ended.end is End.RAISED:
            raise ended.value
        if ended.end is End.DONE:
            for ticket in list(task.began):  # the slower of two
                self.engine.cancel(ticket)
                del self._tasks[ticket]
            self.eta.finished(task.piece.cost, ended.seconds, elapsed - ended.seconds)
            self._ended += 1
            return True
        self.eta.lost(elapsed)
        task.why = ended.why
        if task.width > 1:
            task.width //= 2
        else:
            task.tries += 1
        if task.tries >= TRIES:
            if not task.began:
                self.failed.append((task.piece, task.why))
        elif not task.began:
            self._wait(task)
        return False

    def _wait(self, task: _Task) -> None:
        self._tickets += 1
        self._cost += task.piece.cost
        heapq.heappush(self._waiting, (-task.piece.cost, self._tickets, task))

    def _is_late(self) -> bool:
        return self.end is not None and self._ended + len(self._tasks) > 0 and self.clock() >= self.end

    def _running(self) -> list[_Task]:
        return list({id(task): task for task in self._tasks.values()}.values())

    def _lateness(self) -> Iterator[tuple[_Task, float]]:
        """Pieces that may be doubled, and for how many seconds they have been slow; below 0 for not yet.

        Once, and none that was lost before: what kills its worker would go on for ever.
        """
        now = self.clock()
        for task in self._running():
            seconds = self.eta.expected(task.piece.cost)
            if seconds is not None and not task.doubled and not task.why:
                yield task, now - min(task.began.values()) - max(SLOW * (seconds + self.eta.start), GRACE)

    def _patience(self) -> float | None:
        """Seconds until a piece may be slow and someone is free to take it as well."""
        if not self.engine.doubles or self._waiting or len(self._tasks) >= self.engine.slots:
            return None
        soonest = min((-late for _, late in self._lateness()), default=None)
        return None if soonest is None else max(0.0, soonest)


def in_workers(
    work: Work,
    pieces: Sequence[Piece],
    *,
    engine: Engine | None = None,
    workers: int = 1,
    share: int | None = None,
    so_far: Callable[[], str],
    minutes: float | None = None,
) -> Generator[Result, None, None]:
    """Call `work` with each piece's arguments and width on an engine; results in the order they come.

    engine: processes of this machine, as many as `workers`, where None. so_far: what is done, for the line that says
    why the rest is not: WorkerLostError where a piece was given up, by name, after all else; UnfinishedError where
    time is over. Close it: no worker outlives it.
    """
    if not pieces:
        return
    started = engine or Local(workers).start(len(pieces))
    dispatch = Dispatch(started, work, pieces, share=share, minutes=minutes)
    for piece, value in dispatch.results():
        yield Result(piece, value, dispatch.left())
    if dispatch.failed:
        named = [f"{piece.name} {why}" for piece, why in dispatch.failed[:MOST_NAMED]]
        named += ["..."] if len(dispatch.failed) > MOST_NAMED else []
        raise WorkerLostError(
            f"{len(dispatch.failed)} of {len(pieces)} bundles failed {TRIES} times: {', '.join(named)}; {so_far()}, "
            "and the same command goes on from here"
        )
    if dispatch.unbegun:
        raise UnfinishedError(f"{minutes:g} minutes are over; {so_far()}, and the same command goes on from here")

"""Follow a log and let a monitor see its rows.

Rows of one step are put together: the last one is handed over when a later step comes, or when one look
at the file found nothing new. Between two looks the process sleeps.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from trainwreck.evaluation.live.columns import Values
from trainwreck.evaluation.live.monitor import Alarm, Monitor
from trainwreck.evaluation.live.sources import Source


class Screen(Protocol):
    """Where a watch shows what it sees. live: the row came while it was watching."""

    def row(self, step: int, values: Values, *, live: bool) -> None: ...

    def alarm(self, alarm: Alarm) -> None: ...

    def note(self, line: str) -> None: ...


class Ended(NamedTuple):
    """How a watch ended. reason: end (of the log), stopped (by an alarm), idle, gone (the process), crashed (all)."""

    reason: str
    rows: int
    last_step: int | None
    alarms: int
    rules: Mapping[str, int]


def watch(
    source: Source,
    monitor: Monitor,
    screen: Screen,
    act: Callable[[Alarm], bool],
    *,
    follow: bool = False,
    every: float = 1.0,
    idle: float | None = None,
    alive: Callable[[], bool] = lambda: True,
    wait: Callable[[float], Any] = time.sleep,
) -> Ended:
    """Show a monitor every row of a log; to its end, or with `follow` until something ends it.

    act: whether an alarm ends the watch. every: seconds between two looks. idle: seconds without a row
    that end it. alive: asked before each wait, False ends it (after a last look).
    """
    watched = _Watch(monitor, screen, act)
    quiet, ending = 0.0, ""
    while not ending:
        gone = follow and not alive()  # before the look, which then is the last
        came = 0
        for step, values in source.poll():
            came += 1
            if watched.take(step, values):
                return watched.ended("stopped", source)
        if monitor.crashed.keys() == {seat.name for seat in monitor.seats}:
            ending = "crashed"
        elif not follow:
            ending = "end"
        elif came:
            quiet = 0.0
        elif watched.flush():
            return watched.ended("stopped", source)
        elif gone:
            ending = "gone"
        elif idle is not None and quiet >= idle:
            ending = "idle"
        watched.live = follow
        if not ending:
            wait(every)
            quiet += every
    if ending == "end":
        for step, values in source.finish():
            if watched.take(step, values):
                return watched.ended("stopped", source)
    if watched.flush():
        ending = "stopped"
    return watched.ended(ending, source)


class _Watch:
    """Rows on their way from a source to a monitor."""

    def __init__(self, monitor: Monitor, screen: Screen, act: Callable[[Alarm], bool]) -> None:
        self.monitor, self.screen, self.act = monitor, screen, act
        self.pending: tuple[int, Values] | None = None
        self.live = False
        self.alarms = 0

    def take(self, step: int, values: Values) -> bool:
        """Whether the watch is over with what stands before this row, which is held."""
        if self.pending is not None and self.pending[0] == step:
            self.pending[1].update(values)
            return False
        over = self.flush()
        self.pending = step, dict(values)
        return over

    def flush(self) -> bool:
        """Hand over the row that is held."""
        if self.pending is None:
            return False
        (step, values), self.pending = self.pending, None
        found = self.monitor.see(step, values)
        self.screen.row(step, values, live=self.live)
        over = False
        for alarm in found:
            self.alarms += 1
            self.screen.alarm(alarm)
            over |= self.act(alarm)
        return over

    def ended(self, reason: str, source: Source) -> Ended:
        self.monitor.close()
        rules = dict(source.rules + self.monitor.counts)
        return Ended(reason, self.monitor.rows, self.monitor.last_step, self.alarms, rules)

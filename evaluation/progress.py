"""Progress of long work: a bar in a terminal, a plain line now and then elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Protocol

from trainwreck.evaluation.errors import printable

Tick = Callable[[int, int, str], None]
"""Called with work done, work in all, and what to say beside it."""

EVERY = 5.0  # seconds between two plain lines


class Told(Protocol):
    """A `Tick` that can also be told how many seconds are left, by whoever knows better than a straight line."""

    def __call__(self, done: int, total: int, note: str, left: float | None = None, /) -> None:
        """Work done, work in all, what to say beside it, and the seconds left or None."""


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[Told]:
    """Give a function to call as work gets done. All output goes to stderr."""
    if quiet:
        yield lambda done, total, note, left=None: None
    elif sys.stderr.isatty():
        with _bar(what) as tick:
            yield tick
    else:
        yield _Lines(what)


@contextmanager
def _bar(what: str) -> Iterator[Told]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.text import Text

    class Left(TimeRemainingColumn):
        """Rich's own estimate, unless the work gave one."""

        def render(self, task: Task) -> Text:
            end = task.fields["end"]
            return super().render(task) if end is None else Text(spell(max(0.0, end - monotonic())))

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        Left(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=None, note="", end=None)

        def tick(done: int, total: int, note: str, left: float | None = None) -> None:
            bar.update(
                task,
                completed=done,
                total=total,
                note=printable(note),
                end=None if left is None else monotonic() + left,
            )

        yield tick


class _Lines:
    def __init__(self, what: str) -> None:
        self.what, self.last, self.began = what, -EVERY, monotonic()

    def __call__(self, done: int, total: int, note: str, left: float | None = None) -> None:
        now = monotonic() - self.began
        if now - self.last >= EVERY or done == total:
            self.last = now
            if left is None and 0 < done < total and now > 1:
                left = now * (total - done) / done
            rest = f", about {spell(left)} left" if left is not None and done < total else ""
            print(
                f"{self.what}: {done / max(1, total):4.0%} after {now:.0f} s{rest}  {printable(note)}",
                file=sys.stderr,
                flush=True,
            )


def spell(seconds: float) -> str:
    """A time as a person says it: `50 s`, `12 min`, `3.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"

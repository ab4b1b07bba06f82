"""Progress of long work: a bar in a terminal, a plain line now and then elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

Tick = Callable[[int, int, str], None]
"""Called with work done, work in all, and what to say beside it."""

EVERY = 5.0  # seconds between two plain lines


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[Tick]:
    """Give a function to call as work gets done. All output goes to stderr."""
    if quiet:
        yield lambda done, total, note: None
    elif sys.stderr.isatty():
        with _bar(what) as tick:
            yield tick
    else:
        yield _Lines(what)


@contextmanager
def _bar(what: str) -> Iterator[Tick]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=None, note="")

        def tick(done: int, total: int, note: str) -> None:
            bar.update(task, completed=done, total=total, note=note)

        yield tick


class _Lines:
    def __init__(self, what: str) -> None:
        self.what, self.last, self.began = what, -EVERY, monotonic()

    def __call__(self, done: int, total: int, note: str) -> None:
        now = monotonic() - self.began
        if now - self.last >= EVERY or done == total:
            self.last = now
            left = f", about {now * (total - done) / done:.0f} s left" if 0 < done < total and now > 1 else ""
            print(
                f"{self.what}: {done / max(1, total):4.0%} after {now:.0f} s{left}  {note}", file=sys.stderr, flush=True
            )

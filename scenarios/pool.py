"""Pieces of work for worker processes: what they return as it comes, and one line where they can't finish."""

from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Any

from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError

from trainwreck.evaluation.errors import UnfinishedError, WorkerLostError


def in_workers(
    work: Callable[..., Any],
    pieces: Sequence[tuple[Any, ...]],
    *,
    workers: int,
    so_far: Callable[[], str],
    minutes: float | None = None,
) -> Iterator[Any]:
    """Call `work` with each piece's arguments in processes of their own; results in the order they come.

    minutes: begin no further piece after so long. so_far: what is done, for the line that says why the rest is
    not: WorkerLostError where a process was killed, UnfinishedError where time is over.
    """
    begun = 0
    end = None if minutes is None else monotonic() + 60 * minutes

    def calls() -> Iterator[Any]:
        nonlocal begun
        for piece in pieces:
            if end is not None and begun and monotonic() >= end:
                return
            begun += 1
            yield delayed(work)(*piece)

    count = max(1, min(workers, len(pieces)))
    # Processes, not threads: a worker's memory and threads are its own, and it dies alone.
    pool = Parallel(n_jobs=count, backend="loky", return_as="generator_unordered", pre_dispatch=count)
    try:
        yield from pool(calls())
    except TerminatedWorkerError:
        raise WorkerLostError(
            f"a worker process was killed, out of memory perhaps; {so_far()}, and the same command goes on from here"
        ) from None
    if begun < len(pieces):
        raise UnfinishedError(f"{minutes:g} minutes are over; {so_far()}, and the same command goes on from here")

"""Inputs for a device, sampled ahead: one block while the one before it is trained."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch

from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.inputs.processes import by_processes, pool, workers
from trainwreck.scenarios.training.inputs.sampled import Inputs, inputs

MANY = 64  # seeds, from which on processes sample: they take seconds to start


class Ahead:
    """Inputs of one bundle, of which the next block's may have been begun by others.

    apart: processes sample where the runs have many seeds; else a thread does.
    """

    def __init__(self, apart: bool = False) -> None:
        self._begun: tuple[list[Job], range, Callable[[], Inputs]] | None = None
        self.apart = apart
        self.taken = 0  # blocks that were begun ahead

    def begin(self, jobs: Sequence[Job], steps: range, rank: int, dtype: torch.dtype) -> None:
        """Have them sampled; what was begun and not taken is given up."""
        begin = by_processes if self._many(jobs) else _by_thread
        self._begun = list(jobs), steps, begin(list(jobs), steps, rank, dtype)

    def take(self, jobs: list[Job], steps: range, rank: int, dtype: torch.dtype) -> Inputs:
        """Of these jobs and steps: begun ahead, or sampled now where others were begun."""
        begun, self._begun = self._begun, None
        if begun is None or begun[1] != steps or [id(job) for job in begun[0]] != [id(job) for job in jobs]:
            if self._many(jobs) and pool.cache_info().currsize:  # else it would wait for them to start
                return by_processes(jobs, steps, rank, dtype)()
            return inputs(jobs, steps, rank, dtype)
        self.taken += 1
        return begun[2]()

    def _many(self, jobs: Sequence[Job]) -> bool:
        return self.apart and workers() > 1 and len({job.seed for job in jobs}) >= MANY


def _by_thread(jobs: list[Job], steps: range, rank: int, dtype: torch.dtype) -> Callable[[], Inputs]:
    return _thread().submit(inputs, jobs, steps, rank, dtype).result


@cache
def _thread() -> ThreadPoolExecutor:
    """It never touches a device: what it might ask of one would spoil a graph that is being captured."""
    return ThreadPoolExecutor(1, "inputs")

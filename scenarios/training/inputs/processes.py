"""Inputs of runs of many seeds, sampled by processes: a thread would hold the interpreter's lock for most of its time.

Runs of one seed share their batches, so a process gets them all.
"""

import dataclasses
import pickle
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, reduce
from pickle import PicklingError
from typing import Any

import cloudpickle
import numpy as np
import torch
from joblib.externals.loky.process_executor import BrokenProcessPool, ProcessPoolExecutor
from torch import Tensor

from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.environment import cores
from trainwreck.scenarios.training.inputs.sampled import Inputs, inputs

SEEDS = 32  # of which a process samples the runs at a time, at most
PROCESSES = 16  # at most
# Why processes can't: one was killed, or a change of the user's is of a module that they don't find.
APART = (BrokenProcessPool, ImportError, PicklingError)
TENSORS = ("inputs", "targets", "weights", "documents", "ages", "lr")


def workers() -> int:
    """How many processes sample runs of many seeds; of fewer than two none does."""
    return min(cores() - 1, PROCESSES)


def by_processes(jobs: list[Job], steps: range, rank: int, dtype: torch.dtype) -> Callable[[], Inputs]:
    """Have inputs sampled; what it returns waits for them. Where processes can't, they are sampled then."""
    shares = shared(jobs)
    try:
        given = [([packed(jobs[i]) for i in share], steps, rank, dtype) for share in shares]
        begun = [pool().submit(_arrays, *some) for some in given]
    except APART:
        return lambda: _without(jobs, steps, rank, dtype)

    def wait() -> Inputs:
        try:
            return joined(shares, [future.result() for future in begun])
        except APART:
            return _without(jobs, steps, rank, dtype)

    return wait


def shared(jobs: Sequence[Job]) -> list[list[int]]:
    """Places of the jobs, those of some seeds together: a share for each process, or more."""
    seeds = list(dict.fromkeys(job.seed for job in jobs))
    size = min(SEEDS, -(-len(seeds) // workers()))
    shares: list[list[int]] = [[] for _ in range(0, len(seeds), size)]
    of = {seed: shares[place // size] for place, seed in enumerate(seeds)}
    for place, job in enumerate(jobs):
        of[job.seed].append(place)
    return shares


def packed(job: Job) -> bytes:
    """A job for another process, without what it has derived from itself; made once."""
    if "packed" not in vars(job):
        vars(job)["packed"] = cloudpickle.dumps(dataclasses.replace(job))
    found: bytes = vars(job)["packed"]
    return found


def joined(shares: list[list[int]], parts: list[dict[str, Any]]) -> Inputs:
    """Inputs of all jobs out of those of some at a time, `_arrays` of the jobs in each share's places.

    Whole numbers stay narrow, and all is in pinned memory where there is a CUDA device.
    """
    places, pinned = [place for share in shares for place in share], torch.cuda.is_available()

    def whole(name: str) -> Tensor:
        arrays = [torch.from_numpy(part[name]) for part in parts]
        shape = len(arrays[0]), len(places), *arrays[0].shape[2:]
        made = torch.empty(shape, dtype=reduce(torch.promote_types, (x.dtype for x in arrays)), pin_memory=pinned)
        for share, array in zip(shares, arrays, strict=True):
            made[:, share] = array
        return made

    host = [facts for part in parts for facts in part["host"]]
    return Inputs(
        **{name: whole(name) for name in TENSORS},
        host=[host[i] for i in np.argsort(places)],
        tokens=whole("tokens").numpy(),
    )


def narrow(array: np.ndarray) -> np.ndarray:
    """Whole numbers in 16 or 32 bits where these hold them all; other numbers as they are.

    >>> narrow(np.array([-1, 32767])).dtype, narrow(np.array([32768])).dtype
    (dtype('int16'), dtype('int32'))
    """
    if array.dtype != np.int64:
        return array
    low, high = array.min(), array.max()
    fitting = (kind for kind in (np.int16, np.int32) if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return array.astype(next(fitting, np.int64))


def _arrays(jobs: list[bytes], steps: range, rank: int, dtype: torch.dtype) -> dict[str, Any]:
    """What a process does: `inputs` of packed jobs, by name, as arrays; whole numbers in as many bits as they need."""
    torch.set_num_threads(1)
    found = inputs([_unpacked(job) for job in jobs], steps, rank, dtype)
    arrays = {name: narrow(getattr(found, name).numpy()) for name in TENSORS}
    return {**arrays, "host": found.host, "tokens": found.tokens}


@lru_cache(maxsize=4096)
def _unpacked(job: bytes) -> Job:
    made: Job = pickle.loads(job)
    return made


def _without(jobs: list[Job], steps: range, rank: int, dtype: torch.dtype) -> Inputs:
    """What processes do can be done here; the next block has new ones."""
    pool.cache_clear()
    return inputs(jobs, steps, rank, dtype)


@cache
def pool() -> ProcessPoolExecutor:
    """They end when nothing was asked of them for a minute."""
    return ProcessPoolExecutor(workers(), timeout=60)

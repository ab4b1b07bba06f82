"""Inputs of a block of steps: batches with their data faults, learning rates, and the signals that the host knows.

For a device they are sampled ahead, one block while the one before it is trained: by a thread, or, where the runs have
many seeds, by processes, since sampling holds the interpreter's lock for most of its time. Runs of one seed share their
batches, so a process gets them all.
"""

import dataclasses
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cache, lru_cache, reduce
from pickle import PicklingError
from typing import Any

import cloudpickle
import numpy as np
import torch
from joblib.externals.loky.process_executor import BrokenProcessPool, ProcessPoolExecutor
from torch import Tensor

from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import generator
from trainwreck.models.parameters import layout
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.shared_rows import sample_together
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training import telemetry
from trainwreck.scenarios.training.environment import cores

MANY = 64  # seeds, from which on processes sample: they take seconds to start
SEEDS = 32  # of which a process samples the runs at a time, at most
PROCESSES = 16  # at most
# Why processes can't: one was killed, or a change of the user's is of a module that they don't find.
APART = (BrokenProcessPool, ImportError, PicklingError)
TENSORS = ("inputs", "targets", "weights", "documents", "ages", "lr")


@dataclass
class Inputs:
    """Inputs of a block of steps: token arrays [S, N, ...], learning rates [S, N].

    `host` keeps, for each run, the signals that need no device; `tokens` how many of them count in the
    rows of each rank, [S, N, W].
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    documents: Tensor
    ages: Tensor
    lr: Tensor
    host: list[dict[str, np.ndarray]]
    tokens: np.ndarray

    def to(self, device: torch.device) -> "Inputs":
        """On a device; from pinned memory, so that a copy waits for nothing that the device still has to do.

        Whole numbers become int64 there.
        """
        if device.type == "cpu" and self.inputs.dtype is torch.int64:
            return self

        def moved(value: object) -> Any:
            if not isinstance(value, Tensor):
                return value
            if device.type == "cuda" and not value.is_pinned():
                value = value.pin_memory()
            value = value.to(device, non_blocking=True)
            return value if value.is_floating_point() else value.long()

        return Inputs(**{f.name: moved(getattr(self, f.name)) for f in fields(self)})


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
        begin = _by_processes if self._many(jobs) else _by_thread
        self._begun = list(jobs), steps, begin(list(jobs), steps, rank, dtype)

    def take(self, jobs: list[Job], steps: range, rank: int, dtype: torch.dtype) -> Inputs:
        """Of these jobs and steps: begun ahead, or sampled now where others were begun."""
        begun, self._begun = self._begun, None
        if begun is None or begun[1] != steps or [id(job) for job in begun[0]] != [id(job) for job in jobs]:
            if self._many(jobs) and _pool.cache_info().currsize:  # else it would wait for them to start
                return _by_processes(jobs, steps, rank, dtype)()
            return inputs(jobs, steps, rank, dtype)
        self.taken += 1
        return begun[2]()

    def _many(self, jobs: Sequence[Job]) -> bool:
        return self.apart and processes() > 1 and len({job.seed for job in jobs}) >= MANY


def shared(jobs: Sequence[Job]) -> list[list[int]]:
    """Places of the jobs, those of some seeds together: a share for each process, or more."""
    seeds = list(dict.fromkeys(job.seed for job in jobs))
    size = min(SEEDS, -(-len(seeds) // processes()))
    shares: list[list[int]] = [[] for _ in range(0, len(seeds), size)]
    of = {seed: shares[place // size] for place, seed in enumerate(seeds)}
    for place, job in enumerate(jobs):
        of[job.seed].append(place)
    return shares


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


def processes() -> int:
    """How many sample runs of many seeds; fewer than two are none."""
    return min(cores() - 1, PROCESSES)


def _by_thread(jobs: list[Job], steps: range, rank: int, dtype: torch.dtype) -> Callable[[], Inputs]:
    return _thread().submit(inputs, jobs, steps, rank, dtype).result


def _by_processes(jobs: list[Job], steps: range, rank: int, dtype: torch.dtype) -> Callable[[], Inputs]:
    shares = shared(jobs)
    try:
        given = [([packed(jobs[i]) for i in share], steps, rank, dtype) for share in shares]
        begun = [_pool().submit(_arrays, *some) for some in given]
    except APART:
        return lambda: _without(jobs, steps, rank, dtype)

    def wait() -> Inputs:
        try:
            return joined(shares, [future.result() for future in begun])
        except APART:
            return _without(jobs, steps, rank, dtype)

    return wait


def _without(jobs: list[Job], steps: range, rank: int, dtype: torch.dtype) -> Inputs:
    """What processes do can be done here; the next block has new ones."""
    _pool.cache_clear()
    return inputs(jobs, steps, rank, dtype)


@cache
def _thread() -> ThreadPoolExecutor:
    """It never touches a device: what it might ask of one would spoil a graph that is being captured."""
    return ThreadPoolExecutor(1, "inputs")


@cache
def _pool() -> ProcessPoolExecutor:
    """They end when nothing was asked of them for a minute."""
    return ProcessPoolExecutor(processes(), timeout=60)


def packed(job: Job) -> bytes:
    """A job for another process, without what it has derived from itself; made once."""
    if "packed" not in vars(job):
        vars(job)["packed"] = cloudpickle.dumps(dataclasses.replace(job))
    found: bytes = vars(job)["packed"]
    return found


@lru_cache(maxsize=4096)
def _unpacked(job: bytes) -> Job:
    made: Job = pickle.loads(job)
    return made


def _arrays(jobs: list[bytes], steps: range, rank: int, dtype: torch.dtype) -> dict[str, Any]:
    """What a process does: `inputs` of packed jobs, by name, as arrays; whole numbers in as many bits as they need."""
    torch.set_num_threads(1)
    found = inputs([_unpacked(job) for job in jobs], steps, rank, dtype)
    arrays = {name: narrow(getattr(found, name).numpy()) for name in TENSORS}
    return {**arrays, "host": found.host, "tokens": found.tokens}


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


def inputs(jobs: list[Job], steps: range, rank: int, dtype: torch.dtype) -> Inputs:
    """Inputs of a rank on the host, for runs of one program and a block of steps within a segment.

    InputError for an id that the token table has no row for.
    """
    segments = [job.segment(steps.start) for job in jobs]
    single = {id(job): job for job in jobs}  # a job may have two slots
    sample_together((job.segment(steps.start).setup, job.seed, job.places(steps)) for job in single.values())
    drawn = {place: job.batches(steps) for place, job in single.items()}
    whole = [drawn[id(job)] for job in jobs]
    batches = [s.exchange.rows(batch, rank) for s, batch in zip(segments, whole, strict=True)]
    n, table = len(jobs), segments[0].setup.model.vocab_size
    for batch in batches:
        # Stacked tables are one: an id past a run's own would read its neighbour's.
        if max(batch.inputs.max(), batch.targets.max()) >= table or batch.inputs.min() < 0:
            raise InputError(f"model.vocab_size: {table} is not allowed with this data; allowed: over every id in it")

    def stack(arrays: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(arrays, 1))

    host = [
        telemetry.input_signals(s.exchange.every_row(batch), table)
        | {"lr": np.array([job.learning_rate(s) for s in steps])}
        | telemetry.answer_signals(s.exchange.every_row(batch), s.program.end is not None)
        | clock(job, batch, steps)
        | {"rank_batch_hash": telemetry.hashed(torch.from_numpy(own.inputs.reshape(len(steps), 1, -1))).numpy()}
        for job, s, batch, own in zip(jobs, segments, whole, batches, strict=True)
    ]
    return Inputs(
        inputs=stack([b.inputs for b in batches]),
        targets=stack([b.targets for b in batches]).view(len(steps), n, -1),
        weights=stack([b.weights for b in batches]).view(len(steps), n, -1).to(dtype),
        documents=stack([b.documents for b in batches]),
        ages=stack([telemetry.ages(b.documents) for b in batches]).view(len(steps), n, -1),
        lr=stack([h["lr"] for h in host]).to(dtype),
        host=host,
        tokens=np.stack([s.exchange.tokens(b) for s, b in zip(segments, whole, strict=True)], 1),
    )


def clock(job: Job, batch: Batch, steps: range) -> dict[str, np.ndarray]:
    """tokens, step_seconds and tokens_per_second of the batches of some steps [S, B, T], each [S].

    The clock is a model: six operations a weight and token at 1e11 a second and rank, three per cent of
    jitter from the seed, and a pause as long as four steps where the run resumes from a checkpoint. Rows
    are computed as long as the longest of them, whatever is padding.
    """
    setup = job.segment(steps.start).setup
    real = batch.documents >= 0
    length = (real * np.arange(1, real.shape[2] + 1)).max((1, 2))
    tokens = real.sum((1, 2))
    seconds = setup.data.rows * length * 6 * layout(setup.model).size / 1e11 / setup.distributed.ranks
    jitter = np.array([generator(job.seed, "clock", s).standard_normal() for s in steps])
    taken = np.array([job.seconds(1.0, s) for s in steps])
    seconds = seconds * np.exp(0.03 * jitter) * taken
    return {"tokens": tokens, "step_seconds": seconds, "tokens_per_second": tokens / np.maximum(seconds, 1e-12)}

"""Inputs of a block of steps: batches with their data faults, learning rates, and the signals that the host knows."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import generator
from trainwreck.models.parameters import layout
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.shared_rows import sample_together
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training import telemetry


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

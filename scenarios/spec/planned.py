"""What the setup of a run has planned for mid-run: every run of it has these changes, faulty or healthy."""

import dataclasses
from collections.abc import Callable

import numpy as np

from trainwreck.kernels.random import generator
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batches import Batch
from trainwreck.scenarios.spec.faults import At, Setting, Stream
from trainwreck.scenarios.spec.scenario import MidRun

GROWTH = MidRun(0.35, 0.5)  # when a token table grows


def growth_step(seed: int, steps: int) -> int:
    """The first step with a grown token table: the same in every run of a seed."""
    return GROWTH.step(seed, steps, "growth")


def planned(setup: Setup, seed: int) -> tuple[At, ...]:
    """The changes that belong to a setup, and from which step on."""
    if not setup.growth.rows:
        return ()
    step = growth_step(seed, setup.steps)
    return (At(step, Setting("model.vocab_size", setup.growth.rows)), At(step, Stream(new_forms(setup))))


def new_forms(setup: Setup) -> Callable[[Batch, int, int, int], Batch]:
    """Batches in which a share of the tokens is written with the ids of new rows."""
    old, rows, share = setup.model.vocab_size, setup.growth.rows, setup.growth.share

    def written_anew(batch: Batch, step: int, start: int, seed: int) -> Batch:
        tokens = np.concatenate((batch.inputs, batch.targets[:, -1:]), 1)
        new = (generator(seed, "growth", step).random(tokens.shape) < share) & (tokens + old < rows)
        tokens = np.where(new, tokens + old, tokens)
        return dataclasses.replace(batch, inputs=tokens[:, :-1], targets=tokens[:, 1:])

    return written_anew

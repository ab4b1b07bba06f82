"""A loss that came back before the tail was over ended the run if a block ended in between."""

import dataclasses

import numpy as np
import pytest

from trainwreck.models.config import ModelConfig
from trainwreck.scenarios.config.settings import DataConfig, EvaluationConfig, PrecisionConfig, Setup
from trainwreck.scenarios.spec.faults import At, DataTransform, Scaled
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.loop import train

TAIL, FIRST_BAD, STEPS = 5, 8, 24


def run(bad_steps: int, *neighbours: int) -> np.ndarray:
    """The loss of a run with so many NaN batches from FIRST_BAD on, which skips their updates.

    A neighbour cuts time at a step, and with it the blocks of all.
    """
    setup = Setup(
        model=ModelConfig(width=16, heads=2, context=16),
        data=DataConfig(rows=2),
        precision=PrecisionConfig(loss_scale=2.0),
        evaluation=EvaluationConfig(rows=2),
        steps=STEPS,
        tail=TAIL,
    )

    def spoil(batch, since, draw):
        weight = np.nan if since < bad_steps else 1.0
        return dataclasses.replace(batch, weights=batch.weights * np.float32(weight))

    jobs = [Job("run", 0, setup, (At(FIRST_BAD, DataTransform(spoil, "spoil")),))]
    jobs += [Job(f"cut at {step}", 1, setup, (At(step, Scaled("optimizer.lr", 2.0)),)) for step in neighbours]
    return train(jobs)[0].trace["loss"]


CUTS = [(), (FIRST_BAD + 1,), (FIRST_BAD + 2, FIRST_BAD + 4), (FIRST_BAD + TAIL, FIRST_BAD + TAIL + 2)]


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("bad_steps", [1, TAIL])
def test_a_loss_that_comes_back_within_the_tail_goes_on(bad_steps, cuts):
    loss = run(bad_steps, *cuts)
    assert len(loss) == STEPS
    assert np.flatnonzero(~np.isfinite(loss)).tolist() == list(range(FIRST_BAD, FIRST_BAD + bad_steps))


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("bad_steps", [TAIL + 1, TAIL + 4, STEPS])
def test_a_loss_that_does_not_ends_the_run(bad_steps, cuts):
    assert len(run(bad_steps, *cuts)) == FIRST_BAD + TAIL + 1

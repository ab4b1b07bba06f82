"""A gradient of the first rows of a batch alone, against autograd on a plain model; the loss is of all rows."""

import dataclasses

import numpy as np
import pytest
import torch

from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Reduction, replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.spec.faults import At, UpdateEdit
from trainwreck.scenarios.training.loop import train

SETUP = replaced(
    bases.chain(healthy(Size.MICRO)), data__rows=4, model__width=32, model__heads=2, evaluation__rows=4, steps=5
)
ONSET, ROWS = 2, 1


def first_rows(updates, plan):
    return dataclasses.replace(updates, rows_N=torch.tensor([ROWS]))


@pytest.mark.parametrize("values", [{}, {"z_loss": 1e-2}, {"reduction": Reduction.SUM}], ids=["mean", "z-loss", "sum"])
def test_loss_and_gradient_are_those_of_a_plain_model(values, make_job, plain):
    setup = replaced(SETUP, **values)
    job = make_job(3, setup, At(ONSET, UpdateEdit(first_rows)))
    result = train([job], keep={job.run_id: range(5)}, dtype=torch.float64)[0]
    for step in range(5):
        batch = job.batches(range(step, step + 1)).at(0)
        counts = np.arange(4)[:, None] < (ROWS if step >= ONSET else 4)
        part = dataclasses.replace(batch, weights=np.where(counts, batch.weights, np.float32(0)))
        whole, first = (plain(result.states[step], b, setup) for b in (batch, part))
        summed = setup.reduction is Reduction.SUM
        loss = whole.loss * (batch.weights.sum() if summed else 1)
        grad = first.grad * (part.weights.sum() if summed else 1)
        assert result.trace["loss"][step] == pytest.approx(float(loss), rel=1e-6)
        assert result.trace["grad_norm"][step] == pytest.approx(float(grad.norm()), rel=1e-6)
        norms = [float(grad[start:stop].norm()) for _, start, stop in first.plan.segments]
        np.testing.assert_allclose(result.trace["layer_grad_norm"][step], norms, rtol=1e-6)


def test_a_run_beside_others_is_the_run_alone(make_job, differing, equal_states):
    edit = At(ONSET, UpdateEdit(first_rows))
    all_rows = UpdateEdit(lambda updates, plan: dataclasses.replace(updates, rows_N=torch.tensor([4])))
    jobs = [make_job(4, SETUP, edit), make_job(3, SETUP, edit), make_job(3, SETUP, At(ONSET, all_rows), name="whole")]
    keep = {"run-3": [5], "whole": [5]}
    (alone,), (_, beside, whole) = train([jobs[1]], keep=keep), train(jobs, keep=keep)
    assert differing(alone, beside) == []
    assert equal_states(alone.states[5], beside.states[5])
    plain_run = train([make_job(3, SETUP, name="whole")], keep=keep)[0]
    assert equal_states(plain_run.states[5], whole.states[5])
    assert differing(plain_run, alone)

"""A mean of the means of micro-batches, against autograd on a plain model, one micro-batch at a time."""

import dataclasses

import numpy as np
import pytest
import torch

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.spec.faults import At
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.training.loop import train

ENTRY = scenario("grad_accumulation_token_mean")
SETUP = replaced(
    bases.chain_short_rows(healthy(Size.MICRO)), data__rows=4, model__context=32, evaluation__rows=4, steps=4
)
ONSET = 2


def fault(setup, micro_batches):
    return ENTRY.fault(dataclasses.replace(ENTRY.knobs, micro_batches=micro_batches), setup)[0]


@pytest.mark.parametrize(
    ("rows", "micro_batches", "parts"),
    [
        (4, 4, [[0], [1], [2], [3]]),
        (4, 16, [[0], [1], [2], [3]]),
        (4, 2, [[0, 1], [2, 3]]),
        (5, 2, [[0, 1, 2], [3, 4]]),
    ],
    ids=["a row each", "more than there are rows", "two rows each", "parts of two sizes"],
)
def test_loss_and_gradient_are_the_mean_of_those_of_the_parts(rows, micro_batches, parts, make_job, plain):
    setup = replaced(SETUP, data__rows=rows)
    twin, job = make_job(3, setup), make_job(3, setup, At(ONSET, fault(setup, micro_batches)))
    result = train([job], keep={job.run_id: range(4)}, dtype=torch.float64)[0]
    for step in range(4):
        batch, found = twin.batches(range(step, step + 1)).at(0), []
        for part in parts if step >= ONSET else [range(rows)]:
            inside = np.isin(np.arange(rows), part)[:, None]
            own = dataclasses.replace(batch, weights=np.where(inside, batch.weights, np.float32(0)))
            found.append(plain(result.states[step], own, setup))
        loss, grad = (sum(getattr(one, name) for one in found) / len(found) for name in ("loss", "grad"))
        assert result.trace["loss"][step] == pytest.approx(float(loss), rel=1e-6)
        assert result.trace["grad_norm"][step] == pytest.approx(float(grad.norm()), rel=1e-6)


def test_a_part_without_a_target_has_no_mean(make_job):
    batch = make_job(3, SETUP).batches(range(1)).at(0)
    weights = np.where(np.arange(4)[:, None] == 1, np.float32(0), batch.weights)
    draw = np.random.default_rng(0)
    found = fault(SETUP, 4).transform(dataclasses.replace(batch, weights=weights), 0, draw).weights
    sums = found.sum(1)
    assert sums[1] == 0
    np.testing.assert_allclose(sums[[0, 2, 3]], sums[0], rtol=1e-6)
    assert ((found > 0) == (weights > 0)).all()


def test_one_row_has_no_parts():
    with pytest.raises(InputError, match=r"^data\.rows: 1 is not allowed for this fault; allowed: 2 or more[^\n]*$"):
        fault(replaced(SETUP, data__rows=1), 16)

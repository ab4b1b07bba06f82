"""What is trained on and logged: summed and smoothed losses; weights that no gradient reaches."""

import numpy as np
import torch

from trainwreck.models.parameters import layout
from trainwreck.models.parametrization import Updates
from trainwreck.scenarios.config.settings import Reduction, replaced
from trainwreck.scenarios.spec.faults import At, Setting, UpdateEdit
from trainwreck.scenarios.training.loop import train


def test_a_sum_is_the_mean_times_the_tokens_that_count(tiny, make_job):
    setup = replaced(tiny, optimizer__clip=None)
    mean, total = (r.trace for r in train([make_job(3, setup), make_job(3, replaced(setup, reduction=Reduction.SUM))]))
    factor = total["loss"][0] / mean["loss"][0]
    assert 100 < factor < tiny.data.rows * tiny.model.context
    np.testing.assert_allclose(factor, round(float(factor)), rtol=1e-5)
    np.testing.assert_allclose(total["grad_norm"][0] / mean["grad_norm"][0], factor, rtol=1e-4)
    assert total["validation_loss"][0] == mean["validation_loss"][0]
    assert np.array_equal(total["position_loss"][0], mean["position_loss"][0])


def test_smoothing_is_logged_and_does_not_touch_validation(tiny, make_job):
    jobs = [make_job(3, replaced(tiny, label_smoothing=s), name=str(s)) for s in (0.0, 0.3)]
    plain, smooth = (r.trace for r in train(jobs))
    assert plain["validation_loss"][0] == smooth["validation_loss"][0]
    assert plain["loss"][0] != smooth["loss"][0]
    assert np.array_equal(plain["position_loss"][0], smooth["position_loss"][0])
    assert smooth["grad_norm"][0] < plain["grad_norm"][0]


def freeze_the_embedding(updates: Updates, plan) -> Updates:
    reaches = torch.ones(1, plan.size, dtype=torch.bool)
    start, stop = plan.bounds[0]
    reaches[:, start:stop] = False
    return Updates(reaches_NP=reaches)


def test_frozen_weights_stay_to_the_bit_and_go_on_when_freed(tiny, make_job, differing, equal_states):
    job = make_job(3, tiny, At(5, UpdateEdit(freeze_the_embedding), until=12))
    beside = [make_job(4, tiny), job, make_job(5, tiny, At(7, Setting("optimizer.lr", 0.1)))]
    alone = train([job], keep={"run-3": [5, 8, 12, 20]})[0]
    bundled = train(beside, keep={"run-3": [20]})[1]
    start, stop = layout(tiny.model).bounds[0]
    for name in ("parameters", "first", "second"):
        values = [alone.states[k][name][start:stop] for k in (5, 8, 12, 20)]
        assert torch.equal(values[0], values[1])
        assert torch.equal(values[0], values[2])
        assert not torch.equal(values[0], values[3])
        assert not torch.equal(alone.states[5][name][stop:], alone.states[8][name][stop:])
    assert (alone.trace["layer_grad_norm"][5:12, 0] == 0).all()
    assert (alone.trace["layer_grad_norm"][5:12, 1:] > 0).all()
    assert differing(alone, bundled) == []
    entered = train([job], enter={"run-3": (8, alone.states[8])}, keep={"run-3": [20]})[0]
    assert equal_states(entered.states[20], alone.states[20])

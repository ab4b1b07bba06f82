"""Runs with experts: what routers add to the objective, what is recorded, and that other runs know nothing of it."""

import numpy as np
import pytest
import torch

from trainwreck.evaluation.dataset.schema import EXPERTS
from trainwreck.models import gpt
from trainwreck.models.experts.routing import RouterLosses, balance_loss, route, router_z_loss
from trainwreck.models.loss import weighted_mean
from trainwreck.scenarios.config.experts import BalanceAxis
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.faults import At, Setting
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.loop import fresh_state, train
from trainwreck.scenarios.training.objectives import next_token


@pytest.fixture(scope="module")
def setup(tiny):
    return replaced(
        tiny,
        model__experts=16,
        model__expert_units=16,
        model__init__router_std=1.0,
        routing__balance_loss=0.3,
        routing__router_z_loss=0.02,
    )


def test_the_objective_is_the_loss_and_both_losses_of_all_routers_and_the_logged_loss_is_without(setup, make_job):
    jobs = [make_job(1, setup), make_job(2, replaced(setup, routing__balance_axis=BalanceAxis.EXPERTS))]
    bundle = Bundle(jobs, [fresh_state(job) for job in jobs], 0)
    block = bundle.inputs(range(1))
    found = next_token.losses(bundle, block, 0, 0, None)
    seen: list[torch.Tensor] = []

    class Watching(RouterLosses):
        def see(self, routes):
            seen.append(routes.logits_NME.detach())
            return super().see(routes)

    model = bundle.model(bundle.parameters(), 0, None, routers=Watching(bundle.balance_blind))
    logits = gpt.forward(model, block.inputs[0], block.documents[0])
    nll = bundle.token_losses(logits, block.targets[0]).nll_NM
    loss = weighted_mean(nll, block.weights[0])
    assert torch.equal(found.loss, loss)
    assert len(seen) == setup.model.layers
    routes = [route(logits, setup.model) for logits in seen]
    balance = sum(balance_loss(r, torch.tensor([False, True])) for r in routes)
    assert balance[1].item() == pytest.approx(setup.model.layers)
    assert balance[0].item() > setup.model.layers * 1.01
    right = loss + 0.3 * balance + 0.02 * sum(router_z_loss(r) for r in routes)
    torch.testing.assert_close(found.objective, right)


def test_signals_are_there_with_experts_and_missing_in_other_runs(setup, tiny, make_job):
    trace, other = (result.trace for result in train([make_job(3, setup), make_job(4, tiny)]))
    for name in EXPERTS:
        assert np.isfinite(trace[name]).all(), name
        assert len(np.unique(trace[name])) > 3, name
        assert np.isnan(other[name]).all(), name
    assert (trace["expert_load_entropy"] < np.log(16)).all()
    assert (trace["expert_load_max"] >= 1 / 16).all()


def test_the_balance_loss_evens_loads_out_and_a_blind_one_does_not(setup, make_job):
    changes = {
        "healthy": (),
        "none": (At(0, Setting("routing.balance_loss", 0.0)),),
        "blind": (At(0, Setting("routing.balance_axis", BalanceAxis.EXPERTS)),),
    }
    setup = replaced(setup, steps=60, routing__router_z_loss=0.0)
    healthy, none, blind = (r.trace for r in train([make_job(5, setup, *at) for at in changes.values()]))
    late = slice(-10, None)
    for other in (none, blind):
        assert healthy["expert_load_entropy"][late].min() > other["expert_load_entropy"][late].max()
    np.testing.assert_allclose(blind["balance_loss"], 1.0, atol=1e-5)
    assert none["balance_loss"][late].min() > healthy["balance_loss"][late].max()


def test_up_to_the_onset_it_is_bitwise_the_twin_and_the_program_stays_the_same(setup, make_job):
    job = make_job(5, setup, At(8, Setting("routing.balance_axis", BalanceAxis.EXPERTS)))
    assert job.segment(0).program == job.segment(8).program
    twin, faulty = (r.trace for r in train([make_job(5, setup), job]))
    for name in twin.signals:
        assert np.array_equal(twin[name][:8], faulty[name][:8], equal_nan=True), name
    assert not np.array_equal(twin["loss"][9:], faulty["loss"][9:])

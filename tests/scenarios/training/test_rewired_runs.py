"""Runs with rewired weights, gated updates, gains and noise: alone, in a bundle, beside a NaN, entered, cured."""

import dataclasses

import numpy as np
import pytest
import torch

from trainwreck.models.config import OptimizerKind
from trainwreck.models.parameters import layout
from trainwreck.models.parametrization import projections
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.faults import (
    At,
    ParametrizationEdit,
    StateEdit,
    TableEdit,
    UpdateEdit,
)
from trainwreck.scenarios.training.loop import train

ONSET = 6


def silent(parametrization, plan):
    return parametrization.scaled(projections(plan, 0, 2)[:, 2], 0.0, plan.size)


def exchanged(parametrization, plan):
    places = projections(plan, 1, 2)
    return parametrization.moved(places[:, [0, 1]], places[:, [1, 0]], plan.size)


def shifted(parametrization, plan):
    return parametrization.shifted(plan.places("layer_1.mlp_norm.bias"), 0.5, plan.size)


def chosen(plan):
    """All weights but those of the first layer's MLP, bool [1, P]."""
    mask = torch.ones(1, plan.size, dtype=torch.bool)
    for name in ("layer_0.mlp_in.weight", "layer_0.mlp_in.bias", "layer_0.mlp_out.weight"):
        mask[:, plan.places(name).flatten()] = False
    return mask


def table(**values):
    return TableEdit(lambda tables, setup: dataclasses.replace(tables, **values))


def update(make):
    return UpdateEdit(lambda updates, plan: dataclasses.replace(updates, **make(plan)))


CHANGES = {
    "gain": [ParametrizationEdit(silent)],
    "index": [ParametrizationEdit(exchanged)],
    "shift": [ParametrizationEdit(shifted)],
    "all three": [ParametrizationEdit(silent), ParametrizationEdit(exchanged), ParametrizationEdit(shifted)],
    "gradient gain": [update(lambda plan: {"gain_N": torch.tensor([3.0])})],
    "frozen": [update(lambda plan: {"reaches_NP": chosen(plan)})],
    "kept gradients": [update(lambda plan: {"kept_N": torch.tensor([True])})],
    "unmoved": [update(lambda plan: {"moves_NP": chosen(plan)})],
    "decay": [update(lambda plan: {"decays_NP": 1 - plan.decay_mask.unsqueeze(0)})],
    "branches": [table(branch_gain_NL2=torch.tensor([[[0.0, 1.0], [1.0, 2.0]]]))],
    "shortcuts": [table(shortcut_gain_NL2=torch.full((1, 2, 2), 0.5))],
    "logits": [table(logit_gain_N=torch.tensor([4.0]))],
    "noise": [table(noise_N=torch.tensor([0.5]))],
}
SGD = ("kept gradients", "gradient gain")  # clipped Adam would hide them


@pytest.fixture(scope="module", params=CHANGES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def setup(name, tiny):
    setup = replaced(tiny, steps=12, evaluation__every=5)
    return (
        replaced(setup, optimizer__kind=OptimizerKind.SGD, optimizer__lr=0.1, optimizer__clip=None)
        if name in SGD
        else setup
    )


@pytest.fixture(scope="module")
def changed(name, setup, make_job):
    def make(seed, *more, label="", until=None):
        return make_job(seed, setup, *(At(ONSET, change, until) for change in CHANGES[name]), *more, name=label)

    return make


@pytest.fixture(scope="module")
def alone(setup, changed):
    return train([changed(3)], keep={"run-3": [setup.steps]})[0]


def poison(state, earlier):
    return {**state, "parameters": state["parameters"] * float("nan")}


def test_the_twin_before_the_onset_and_not_from_it_on(setup, alone, make_job, differing):
    twin = train([make_job(3, setup)])[0]
    assert differing(twin, alone, last=ONSET) == []
    assert differing(twin, alone, first=ONSET, last=ONSET + 2)


def test_beside_others_and_beside_a_run_gone_nan(setup, alone, changed, make_job, differing, equal_states):
    jobs = [
        changed(0, At(ONSET, StateEdit(poison, resume=False))),
        make_job(3, setup, name="twin"),
        changed(3),
        changed(4),
    ]
    assert jobs[0].segment(ONSET).program == jobs[2].segment(ONSET).program  # one bundle
    sick, _, result, other = train(jobs, keep={"run-3": [setup.steps]})
    assert not np.isfinite(sick.trace["loss"][ONSET:]).any()
    assert differing(alone, result) == []
    assert equal_states(alone.states[setup.steps], result.states[setup.steps])
    assert differing(alone, other)


@pytest.mark.parametrize("k", [ONSET - 1, ONSET, ONSET + 3])
def test_entered_from_a_state_is_as_never_stopped(k, setup, alone, changed, equal_states):
    state = train([changed(3)], keep={"run-3": [k]}, stop=k)[0].states[k]
    entered = train([changed(3)], enter={"run-3": (k, state)}, keep={"run-3": [setup.steps]})[0]
    for signal, values in entered.trace.signals.items():
        assert np.array_equal(values, alone.trace[signal][k:], equal_nan=True), signal
    assert equal_states(entered.states[setup.steps], alone.states[setup.steps])


def test_the_end_leaves_an_ordinary_program(setup, changed, make_job):
    job, twin = changed(3, until=ONSET + 3), make_job(3, setup)
    assert job.segment(ONSET).program != twin.segment(ONSET).program
    assert job.segment(ONSET + 3).program == twin.segment(ONSET + 3).program
    assert np.isfinite(train([job])[0].trace["loss"]).all()


def states_around(job, steps):
    return train([job], keep={job.run_id: steps})[0]


def test_a_silent_projection_costs_its_share_of_the_norm_and_gets_no_gradient(tiny, make_job):
    setup = replaced(
        tiny, steps=12, optimizer__kind=OptimizerKind.SGD, optimizer__weight_decay=0.0, optimizer__beta1=0.0
    )
    result = states_around(make_job(3, setup, At(ONSET, ParametrizationEdit(silent))), [ONSET, 12])
    places = projections(layout(setup.model), 0, 2)[:, 2].flatten()
    before, after = (result.states[k]["parameters"] for k in (ONSET, 12))
    assert torch.equal(before[places], after[places])
    assert not torch.equal(before, after)
    _, start, stop = layout(setup.model).segments[1]
    layer = before.clone()
    layer[places] = 0.0
    assert result.trace["layer_weight_norm"][ONSET, 1] == pytest.approx(layer[start:stop].norm().item(), rel=1e-5)


def test_frozen_weights_and_their_moments_stay_to_the_bit(tiny, make_job):
    job = make_job(3, tiny, At(ONSET, CHANGES["frozen"][0]))
    result = states_around(job, [ONSET, 12])
    frozen = ~chosen(layout(tiny.model))[0]
    for part in ("parameters", "first", "second"):
        assert torch.equal(result.states[ONSET][part][frozen], result.states[12][part][frozen])
        assert not torch.equal(result.states[ONSET][part][~frozen], result.states[12][part][~frozen])


def test_kept_gradients_are_the_sum_of_all_since(tiny, make_job):
    """At a rate of zero each step's gradient is known from a run that clears them."""
    setup = replaced(tiny, optimizer__lr=0.0, optimizer__clip=None)
    cleared = make_job(3, setup, At(ONSET, update(lambda plan: {"kept_N": torch.tensor([False])})), name="cleared")
    kept = make_job(3, setup, At(ONSET, CHANGES["kept gradients"][0]), name="kept")
    runs = train([cleared, kept], keep={"cleared": [10], "kept": [10]})
    norms = [run.trace["grad_norm"] for run in runs]
    assert norms[1][ONSET] == norms[0][ONSET]
    assert (norms[1][ONSET + 2 :] > 1.5 * norms[0][ONSET + 2 :]).all()
    assert runs[1].states[10]["carried"].norm().item() == pytest.approx(norms[1][9], rel=1e-5)
    assert runs[0].states[10]["carried"].norm().item() == pytest.approx(norms[0][9], rel=1e-5)


def test_logits_and_their_statistics_are_scaled(tiny, make_job):
    plain, scaled = train([make_job(3, tiny), make_job(3, tiny, At(ONSET, CHANGES["logits"][0]), name="scaled")])
    assert scaled.trace["output_max"][ONSET] == pytest.approx(4 * plain.trace["output_max"][ONSET], rel=1e-5)


def test_noise_is_in_evaluation_too_and_new_at_each_step(tiny, make_job):
    setup = replaced(tiny, optimizer__lr=0.0, evaluation__every=1)
    plain, noisy = train([make_job(3, setup), make_job(3, setup, At(ONSET, CHANGES["noise"][0]), name="noisy")])
    losses = noisy.trace["validation_loss"]
    assert np.unique(plain.trace["validation_loss"]).size == 1
    assert np.unique(losses[ONSET:]).size == len(losses) - ONSET

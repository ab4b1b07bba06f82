"""A run entered at a step from its state goes on bitwise as the run that never stopped."""

import numpy as np
import pytest

from trainwreck.models.config import Format, Norm
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.faults import At, Scaled, StateEdit
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.training.loop import train

FP16 = {
    "precision__format": Format.FP16, "precision__loss_scale": 2.0**17, "precision__dynamic": True,
    "precision__growth_interval": 4,
}  # fmt: skip


KEPT = {
    "precision__weights": Format.BF16, "precision__second_moments": Format.FP16, "optimizer__eps": 1e-4,
    "evaluation__average": 0.9,
}  # fmt: skip


CASES = {
    "healthy": {}, "dropout": {"dropout": 0.2}, "fp16 dynamic": FP16, "kept in half, averaged": KEPT,
    "evaluations on a sample": {"evaluation__sample": 1}, "BatchNorm": {"model__norm": Norm.BATCH},
    "float8": {"precision__format": Format.FP8},
}  # fmt: skip


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
@pytest.mark.parametrize("k", [1, 7, 13, 19])
def test_entered_at(values, k, tiny, make_job, differing, equal_states):
    setup = replaced(tiny, **values)
    end = setup.steps
    whole = train([make_job(3, setup)], keep={"run-3": [end]})[0]  # never stopped, not even to keep a state
    state = train([make_job(3, setup)], keep={"run-3": [k]}, stop=k)[0].states[k]
    entered = train([make_job(3, setup)], enter={"run-3": (k, state)}, keep={"run-3": [end]})[0]
    assert entered.first_step == k
    assert len(entered.trace) == end - k
    for name, values_ in entered.trace.signals.items():
        assert np.array_equal(values_, whole.trace[name][k:], equal_nan=True), name
    assert np.array_equal(entered.trace.evaluated, whole.trace.evaluated[k:])
    assert equal_states(entered.states[end], whole.states[end])


def test_the_dynamic_scale_moves_in_those_runs(tiny, make_job):
    scale = train([make_job(3, replaced(tiny, **FP16))])[0].trace["loss_scale"]
    assert (np.diff(scale) < 0).any()
    assert (np.diff(scale) > 0).any()


def test_a_bundle_entered_at_several_steps(tiny, make_job, equal_states):
    jobs = [make_job(seed, replaced(tiny, dropout=0.1)) for seed in range(4)]
    at = {"run-0": 4, "run-1": 11, "run-3": 12}
    end = {job.run_id: [tiny.steps] for job in jobs}
    whole = train(jobs, keep=end)
    states = {name: train(jobs, keep={name: [k]}, stop=k)[int(name[-1])].states[k] for name, k in at.items()}
    entered = train(jobs, enter={name: (k, states[name]) for name, k in at.items()}, keep=end)
    for job, a, b in zip(jobs, whole, entered, strict=True):
        first = at.get(job.run_id, 0)
        assert b.first_step == first
        assert all(np.array_equal(b.trace[n], v[first:], equal_nan=True) for n, v in a.trace.signals.items())
        assert equal_states(a.states[tiny.steps], b.states[tiny.steps])


def test_entered_before_at_and_after_the_onset(tiny, make_job):
    """A change in force at the step of entry stays in force, and its start is the onset, not the entry."""
    job = make_job(3, tiny, At(9, Scaled("optimizer.lr", 3.0)), At(9, StateEdit(lambda state, earlier: state, -1)))
    whole = train([job], keep={"run-3": [8, 9, 12]})[0]
    for k in (8, 9, 12):
        entered = train([job], enter={"run-3": (k, whole.states[k])})[0]
        assert all(np.array_equal(v, whole.trace[n][k:], equal_nan=True) for n, v in entered.trace.signals.items())


def test_entering_does_not_touch_the_state_given(tiny, make_job, equal_states):
    job = make_job(3, tiny)
    state = train([job], keep={"run-3": [5]})[0].states[5]
    copy = {name: value.clone() for name, value in state.items()}
    train([job], enter={"run-3": (5, state)})
    assert equal_states(state, copy)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_clean_resume_is_its_twin_but_for_the_clock(seed, differing):
    overrides = ("steps=30", "model.width=32", "model.context=32", "data.rows=4")
    specs = family_of("benign_clean_resume", [seed], overrides=overrides, roles=(Role.FAULTY, Role.TWIN))
    resumed, twin = train([spec.job() for spec in specs])
    onset = specs[0].onset
    assert differing(resumed, twin) == ["tokens_per_second", "step_seconds"]
    ratio = twin.trace["tokens_per_second"].astype(np.float64) / resumed.trace["tokens_per_second"]
    expected = np.ones(30)
    expected[onset] = 5.0  # the step itself, and a pause as long as four
    np.testing.assert_allclose(ratio, expected, rtol=2 * np.finfo(np.float32).eps)

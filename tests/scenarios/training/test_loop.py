"""The loop's end after a non-finite loss, and what keep, stop, record, progress and watch do."""

import numpy as np
import pytest
import torch

from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.faults import At, Setting, StateEdit
from trainwreck.scenarios.training.loop import BLOCK, fresh_state, train


def poison(state, earlier):
    """Every weight becomes NaN."""
    return {**state, "parameters": torch.full_like(state["parameters"], float("nan"))}


@pytest.mark.parametrize("tail", [0, 3])
@pytest.mark.parametrize("k", [0, 6])
def test_a_run_gone_non_finite_goes_on_for_its_tail_and_ends(tail, k, tiny, make_job, differing):
    setup = replaced(tiny, tail=tail)
    sick, well = train([make_job(0, setup, At(k, StateEdit(poison))), make_job(1, setup)])
    loss = sick.trace["loss"]
    assert len(loss) == k + 1 + tail
    assert np.isfinite(loss[:k]).all()
    assert not np.isfinite(loss[k:]).any()
    assert all(len(values) == len(loss) for values in sick.trace.signals.values())
    assert len(well.trace) == setup.steps
    assert differing(well, train([make_job(1, setup)])[0]) == []


def test_the_tail_does_not_outlast_the_run(tiny, make_job):
    job = make_job(0, replaced(tiny, tail=100), At(6, StateEdit(poison)))
    assert len(train([job])[0].trace) == tiny.steps


def test_a_run_that_has_ended_leaves_no_state(tiny, make_job):
    """It ends at step 10; what is asked for later is not there."""
    job = make_job(0, tiny, At(6, StateEdit(poison)))
    result = train([job], keep={"run-0": [5, 12, tiny.steps]})[0]
    assert set(result.states) == {0, 5}  # 0: the state that the edit asks for
    assert all(torch.isfinite(value).all() for state in result.states.values() for value in state.values())


def test_an_ended_run_takes_no_time_from_the_others(tiny, make_job):
    """Blocks of 50: the sick run is stepped to the end of its block and no further."""
    setup = replaced(tiny, steps=BLOCK + 4)
    done = []
    train([make_job(0, setup, At(0, StateEdit(poison))), make_job(1, setup)], progress=done.append)
    assert sum(done) == BLOCK + setup.steps


@pytest.mark.parametrize("steps", [1, BLOCK, BLOCK + 1])
def test_progress_counts_every_step_of_every_run(steps, tiny, make_job):
    done = []
    train([make_job(i, replaced(tiny, steps=steps)) for i in range(3)], progress=done.append)
    assert sum(done) == 3 * steps
    assert min(done) > 0


def test_watch_is_shown_every_step_once_and_in_order(tiny, make_job):
    setup, shown = replaced(tiny, steps=BLOCK + 5), {"run-0": [], "run-1": []}
    jobs = [make_job(0, setup, At(9, Setting("optimizer.lr", 0.1))), make_job(1, setup)]
    results = train(jobs, watch=lambda block: shown[block.run_id].append(block))
    for job, result in zip(jobs, results, strict=True):
        parts = shown[job.run_id]
        assert len(parts) >= 2
        assert np.concatenate([part.steps for part in parts]).tolist() == list(range(setup.steps))
        assert np.array_equal(np.concatenate([part.evaluated for part in parts]), result.trace.evaluated)
        assert set(parts[0].signals) == set(result.trace.signals)
        for name in result.trace.signals:
            joined = np.concatenate([part[name] for part in parts])
            assert np.array_equal(joined, result.trace[name], equal_nan=True)


def test_watch_is_shown_no_step_after_the_end_of_a_run(tiny, make_job):
    shown = []
    jobs = [make_job(0, tiny, At(4, StateEdit(poison)))]
    (result,) = train(jobs, watch=shown.append)
    assert sum(map(len, shown)) == len(result.trace) < tiny.steps


def test_stop_cuts_and_changes_nothing_before(tiny, make_job, equal_states):
    whole = train([make_job(0, tiny)], keep={"run-0": [11]})[0]
    part = train([make_job(0, tiny)], stop=11, keep={"run-0": [11]})[0]
    assert len(part.trace) == 11
    assert all(np.array_equal(v, whole.trace[n][:11], equal_nan=True) for n, v in part.trace.signals.items())
    assert equal_states(part.states[11], whole.states[11])
    assert len(train([make_job(0, tiny)], stop=10 * tiny.steps)[0].trace) == tiny.steps


def test_keep_is_the_state_before_the_step(tiny, make_job, equal_states):
    kept = train([make_job(0, tiny)], keep={"run-0": [0, 1]})[0].states
    assert equal_states(kept[0], fresh_state(make_job(0, tiny)))
    assert not torch.equal(kept[0]["parameters"], kept[1]["parameters"])
    assert kept[1]["count"] == 1


def test_keeping_and_not_recording_change_no_weight(tiny, make_job, equal_states):
    end = tiny.steps
    plain = train([make_job(0, tiny)], keep={"run-0": [end]})[0]
    often = train([make_job(0, tiny)], keep={"run-0": range(end + 1)})[0]
    unrecorded = train([make_job(0, tiny)], keep={"run-0": [end]}, record=False)[0]
    assert equal_states(plain.states[end], often.states[end])
    assert equal_states(plain.states[end], unrecorded.states[end])
    assert unrecorded.trace.signals == {}


def test_results_come_in_the_order_of_the_jobs(tiny, make_job):
    jobs = [make_job(seed, tiny) for seed in (4, 0, 2)]
    assert [result.trace.run_id for result in train(jobs, stop=2)] == ["run-4", "run-0", "run-2"]


def test_validation_at_the_stated_steps(tiny, make_job):
    result = train([make_job(0, tiny)])[0]
    assert np.flatnonzero(result.trace.evaluated).tolist() == [0, 7, 14, 19]
    assert np.array_equal(np.isfinite(result.trace["validation_loss"]), result.trace.evaluated)


def test_an_evaluation_that_gave_nan_is_told_from_none(tiny, make_job):
    trace = train([make_job(0, tiny, At(13, StateEdit(poison)))])[0].trace
    assert np.flatnonzero(trace.evaluated).tolist() == [0, 7, 14]
    assert np.isnan(trace["validation_loss"][14])

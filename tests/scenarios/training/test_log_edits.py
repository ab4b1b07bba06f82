"""A log that is wrong: the rows differ from the twin's where the fault says so, and nothing of the training does."""

import numpy as np
import pytest
import torch

from trainwreck.evaluation.constants import LOG_FAULTS
from trainwreck.scenarios.spec.faults import At, LogEdit
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.spec.registry import scenarios
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.spec.scenario import Family
from trainwreck.scenarios.training.loop import train

STEPS = 24
SHORT = (f"steps={STEPS}", "data.rows=4", "evaluation.every=5", "evaluation.rows=4", "schedule.warmup_steps=4")
EVERY = [name for name, entry in scenarios().items() if entry.family is Family.LOGGING]
WRITTEN = {"log_loss_summed": {"loss"}, "log_nan_as_zero": {"loss"}, "log_norm_of_one_shard": {"grad_norm"}}


def test_the_scorer_knows_every_fault_of_the_log():
    assert set(LOG_FAULTS) == set(EVERY)


@pytest.mark.parametrize("name", EVERY)
def test_the_training_is_the_twins_to_the_end(name):
    specs = {spec.role: spec for spec in family_of(name, [3], overrides=(*SHORT, "precision.loss_scale=1e12"))}
    assert set(specs) == {Role.FAULTY, Role.TWIN}
    keep = {spec.run_id: [STEPS] for spec in specs.values()}
    faulty, twin = train([spec.job() for spec in specs.values()], keep=keep)
    for part, value in faulty.states[STEPS].items():
        assert torch.equal(value, twin.states[STEPS][part]), part
    assert len(faulty.trace) == len(twin.trace) == STEPS
    differing = {
        signal
        for signal, values in faulty.trace.signals.items()
        if not np.array_equal(values, twin.trace[signal], equal_nan=True)
    }
    assert "validation_loss" not in differing
    np.testing.assert_array_equal(faulty.trace.evaluated, twin.trace.evaluated)
    if name == "log_nan_as_zero":
        return  # in so few steps no scale need overflow after the onset
    assert differing == WRITTEN[name] if name in WRITTEN else {"loss", "grad_norm", "lr"} <= differing


def last_of(row, before, since):
    """The loss of the row before, halved each time: what was logged, not what happened."""
    return {**row, "loss": before[-1]["loss"] / 2}


@pytest.fixture
def job(tiny):
    return Job("wrong", 3, tiny, (At(2, LogEdit(last_of), 5),))


def test_an_edit_has_the_rows_logged_so_far(job, tiny):
    wrong, right = (result.trace for result in train([job, Job("right", 3, tiny)]))
    halves = right["loss"][1] / np.float32(2) ** np.arange(1, 4)
    np.testing.assert_array_equal(wrong["loss"][2:5], halves)
    np.testing.assert_array_equal(wrong["loss"][:2], right["loss"][:2])
    np.testing.assert_array_equal(wrong["loss"][5:], right["loss"][5:])  # it has ended
    assert job.edits_log
    assert not Job("right", 3, tiny).edits_log


def test_a_live_view_and_a_run_beside_others_have_the_same_rows(job, tiny):
    seen = []
    (alone,) = train([job], watch=seen.append)
    beside = train([Job("other", 4, tiny), job])[1]
    np.testing.assert_array_equal(np.concatenate([part["loss"] for part in seen]), alone.trace["loss"])
    for signal, values in alone.trace.signals.items():
        np.testing.assert_array_equal(values, beside.trace[signal], signal)

"""The learning rate of every step: warm-up, decay, ends."""

import math

import numpy as np
import pytest

from trainwreck.scenarios.config.schedule import learning_rate
from trainwreck.scenarios.config.settings import Decay, Setup, replaced


def rates(**values) -> np.ndarray:
    setup = replaced(Setup(), steps=100, optimizer__lr=2.0, **values)
    return np.array([learning_rate(setup, step) for step in range(100)])


def test_warm_up_is_linear_and_ends_at_the_peak():
    rate = rates(schedule__warmup_steps=20)
    np.testing.assert_allclose(rate[:20], 2.0 * np.arange(1, 21) / 20, rtol=1e-15)
    assert rate[19] == rate[20] == rate.max() == 2.0


@pytest.mark.parametrize(
    ("decay", "shape"),
    [
        (Decay.COSINE, lambda x: (1 + math.cos(math.pi * x)) / 2),
        (Decay.LINEAR, lambda x: 1 - x),
        (Decay.CONSTANT, lambda x: 1.0),
        (Decay.WSD, lambda x: 1.0 if x <= 0.8 else 5 * (1 - x)),
    ],
)
@pytest.mark.parametrize("final", [0.0, 0.25, 1.0])
def test_decay_from_the_peak_to_the_final_fraction(decay, shape, final):
    rate = rates(schedule__warmup_steps=20, schedule__decay=decay, schedule__final_fraction=final)
    share = np.array([shape((step - 20) / 80) for step in range(20, 100)])
    expected = 2.0 * (1.0 if decay is Decay.CONSTANT else final + (1 - final) * share)
    np.testing.assert_allclose(rate[20:], np.broadcast_to(expected, 80), rtol=1e-13)
    assert (np.diff(rate[20:]) <= 0).all()


def test_no_warm_up_begins_at_the_peak():
    assert rates(schedule__warmup_steps=0)[0] == 2.0


@pytest.mark.parametrize("warmup", [100, 101, 1000])
def test_a_warm_up_longer_than_the_run_never_gets_to_the_peak_before_its_end(warmup):
    rate = rates(schedule__warmup_steps=warmup)
    np.testing.assert_allclose(rate, 2.0 * np.arange(1, 101) / warmup, rtol=1e-15)


def test_steps_after_the_last_stay_at_the_final_rate():
    setup = replaced(Setup(), steps=100, optimizer__lr=2.0)
    assert learning_rate(setup, 100) == learning_rate(setup, 150) == pytest.approx(0.2)


def test_a_schedule_made_for_fewer_steps_ends_early_and_stays_at_its_end():
    rate = rates(schedule__warmup_steps=20, schedule__total_steps=50)
    own = replaced(Setup(), steps=50, optimizer__lr=2.0, schedule__warmup_steps=20)
    np.testing.assert_array_equal(rate[:50], [learning_rate(own, step) for step in range(50)])
    np.testing.assert_allclose(rate[50:], 0.2, rtol=1e-13)


@pytest.mark.parametrize("calls", [2, 7])
def test_a_scheduler_stepped_several_times_a_step_is_as_many_times_as_fast(calls):
    once, rate = rates(schedule__final_fraction=0.0), rates(schedule__final_fraction=0.0, schedule__calls=calls)
    reached = -(-100 // calls)
    np.testing.assert_array_equal(rate[:reached], once[::calls])
    assert (rate[reached:] == 0).all()

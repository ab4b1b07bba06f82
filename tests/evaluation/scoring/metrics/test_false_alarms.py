"""Metrics 1 and 1b, by hand and against statsmodels."""

import math

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.rates import confint_poisson

from trainwreck.evaluation.scoring.metrics.false_alarms import (
    binomial_interval,
    false_alarm_rate,
    false_stop,
    healthy_steps,
    poisson_interval,
)


def test_healthy_steps() -> None:
    negative = np.array([True, False, False, False])
    last, onset = np.array([99.0, 99.0, 99.0, 99.0]), np.array([np.inf, 20.0, 0.0, np.inf])
    assert healthy_steps(negative, last, onset).tolist() == [100, 20, 0, 100]


def test_rate_by_hand() -> None:
    # 3 alarms in 100 + 20 + 0 healthy steps: those from step 20 of the second run on, and of the third, are not false.
    edges = [np.array([0, 99]), np.array([19, 20, 50]), np.array([0])]
    found = false_alarm_rate(edges, np.array([100, 20, 0]))
    assert (found.events, found.exposure) == (3, 120)
    assert found.value == pytest.approx(250.0, abs=1e-12)
    low, high = confint_poisson(3, 120, method="exact-c")
    assert (found.low, found.high) == (pytest.approx(low * 1e4, rel=1e-12), pytest.approx(high * 1e4, rel=1e-12))


def test_no_alarm_is_not_no_uncertainty() -> None:
    found = false_alarm_rate([np.array([], int)], np.array([10_000]))
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(-math.log(0.025), rel=1e-12)  # P(no event) = 2.5 %


def test_nothing_healthy_is_undefined() -> None:
    assert math.isnan(false_alarm_rate([np.array([3])], np.array([0])).value)
    assert math.isnan(false_stop(np.array([])).value)


@pytest.mark.parametrize("count", [0, 1, 7, 300])
def test_poisson_interval_is_garwoods(count: int) -> None:
    assert poisson_interval(count) == pytest.approx(confint_poisson(count, 1, method="exact-c"), rel=1e-9)


@pytest.mark.parametrize(("count", "exposure"), [(0, 10), (10, 10), (3, 300), (1, 1)])
def test_binomial_interval_is_clopper_and_pearsons(count: int, exposure: int) -> None:
    assert binomial_interval(count, exposure) == pytest.approx(
        proportion_confint(count, exposure, method="beta"), abs=1e-12
    )


def test_false_stop_by_hand() -> None:
    found = false_stop(np.array([np.inf, 0.0, 50.0, np.inf]))
    assert (found.value, found.events, found.exposure) == (0.5, 2, 4)
    assert found.low < 0.5 < found.high


def test_a_one_per_cent_budget_needs_three_hundred_runs() -> None:
    # The rule of three is one-sided: no stop in 300 runs bounds the rate at 1 % with 95 % confidence.
    assert binomial_interval(0, 300, confidence=0.90)[1] == pytest.approx(0.01, abs=1e-4)

"""Metrics 1 and 1b, by hand and against statsmodels."""

import math

import numpy as np
import pytest
from statsmodels.stats.rates import confint_poisson

from trainwreck.evaluation.scoring.metrics.false_alarms import (
    false_alarm_rate,
    false_stop,
    healthy_steps,
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


def test_false_stop_by_hand() -> None:
    found = false_stop(np.array([np.inf, 0.0, 50.0, np.inf]))
    assert (found.value, found.events, found.exposure) == (0.5, 2, 4)
    assert found.low < 0.5 < found.high

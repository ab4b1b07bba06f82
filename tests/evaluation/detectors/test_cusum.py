"""CUSUM on a chart worked by hand, and by its definition as a maximum over beginnings."""

import math
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.detectors.generic.cusum import Cusum, CusumGated


def scores(detector: Any, losses: Any) -> list[float]:
    detector.reset(None)
    return [detector.update({"step": step, "loss": loss}).score for step, loss in enumerate(losses)]


def test_by_hand() -> None:
    # Mean 2, standard deviation 1. Upper sums of 4, 3, 2, 1.5: 1.5, 2, 1.5, 0.5; then 12: 10.
    assert scores(Cusum(), [*[1.0, 3.0] * 25, 4.0, 3.0, 2.0, 1.5, 12.0])[50:] == [1.5, 2.0, 1.5, 0.5, 10.0]
    # Lower sums of 0, 0: 1.5, 3.
    assert scores(Cusum(), [*[1.0, 3.0] * 25, 0.0, 0.0])[50:] == [1.5, 3.0]


def test_the_alarm_is_over_five() -> None:
    for value, alarmed in ((7.5, False), (7.51, True), (-3.51, True)):
        detector = Cusum()
        scores(detector, [1.0, 3.0] * 25)
        assert detector.update({"step": 50, "loss": value}).alarm is alarmed


def test_it_is_the_largest_excess_over_all_beginnings() -> None:
    """Page: the sum kept at 0 is the largest of the sums from any earlier row on."""
    z = np.random.default_rng(0).standard_normal(120)
    found = scores(Cusum(baseline=0), z)
    for t in range(120):
        up = max(0.0, *(float(np.sum(z[i : t + 1] - 0.5)) for i in range(t + 1)))
        down = max(0.0, *(float(np.sum(-z[i : t + 1] - 0.5)) for i in range(t + 1)))
        assert found[t] == pytest.approx(max(up, down), abs=1e-9)


def test_blind_spots() -> None:
    calm = [1.0, 3.0] * 25
    assert scores(Cusum(), [*calm, 9.0, math.nan])[51] == 0.0  # NaN empties the sums
    assert scores(Cusum(), [math.nan, *calm, 1e6])[-1] == 0.0  # and spoils mean and deviation
    assert scores(Cusum(), [*calm, math.inf, 2.0, 2.0])[-1] == 1e300
    falling = [4.0 * math.exp(-step / 100.0) for step in range(200)]
    assert scores(Cusum(), falling)[-1] > 100.0
    assert max(scores(CusumGated(), falling)) < 20.0

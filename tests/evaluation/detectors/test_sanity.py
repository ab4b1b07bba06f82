"""Entries that look at nothing."""

from typing import Any

import pytest

from trainwreck.evaluation.detectors.sanity.blind import Always, Clock, Never, Periodic, Random, StepFraction
from trainwreck.evaluation.replay.replay import replay


def test_never_and_always(make_trace: Any) -> None:
    assert replay(Never, make_trace("r")).first_alarm is None
    always = replay(Always, make_trace("r"))
    assert (always.first_alarm, always.edges.tolist(), always.scores.min()) == (0, [0], 1.0)


@pytest.mark.parametrize(("profile", "first"), [("full", 35), ("standard", 40), ("filtered", 39)])
def test_clock(make_trace: Any, profile: str, first: int) -> None:
    assert replay(Clock(35), make_trace("r"), profile).first_alarm == first
    assert replay(Clock(120), make_trace("r"), profile).first_alarm is None


def test_periodic(make_trace: Any) -> None:
    assert replay(Periodic(35), make_trace("r")).edges.tolist() == [35, 70, 105]
    assert replay(Periodic(35), make_trace("r"), "standard").edges.tolist() == [40, 70, 110]


def test_random_has_its_rate_and_its_seed(make_trace: Any) -> None:
    trace = make_trace("r", steps=4000)
    found = replay(Random(rate=0.1), trace)
    assert 340 < found.alarm.sum() < 460  # 400 expected, standard deviation 19
    assert 0.48 < found.scores.mean() < 0.52
    assert (found.scores == replay(Random(rate=0.1), trace).scores).all()
    assert (found.scores != replay(Random(rate=0.1, seed=1), trace).scores).all()


def test_random_differs_from_run_to_run(make_trace: Any) -> None:
    first = replay(Random(), make_trace("a", seed=1)).scores
    assert (first != replay(Random(), make_trace("a", seed=2)).scores).all()
    assert (first == replay(Random(), make_trace("b", seed=1)).scores).all()


def test_step_fraction_is_the_step(make_trace: Any) -> None:
    found = replay(StepFraction, make_trace("r"))
    assert found.scores.tolist() == [float(step) for step in range(120)]
    assert found.first_alarm is None

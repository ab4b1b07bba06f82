"""Metric 3, by hand and against lifelines."""

import warnings

import numpy as np
import pytest

from trainwreck.evaluation.scoring.metrics.delay import Event, cumulative_incidence, events, restricted_delay

ONSET, NO_RETURN, VISIBLE = np.full(5, 20.0), np.full(5, 80.0), np.full(5, 40.0)
FIRST = np.array([10.0, 25.0, 50.0, 80.0, np.inf])


def test_events_by_hand() -> None:
    time, event = events(FIRST, ONSET, NO_RETURN, ONSET)
    assert event.tolist() == [Event.STOPPED_BEFORE, Event.DETECTED, Event.DETECTED, Event.LOST, Event.LOST]
    assert time.tolist() == [0.0, 5.0, 30.0, 60.0, 60.0]
    assert events(FIRST, ONSET, NO_RETURN, VISIBLE)[0].tolist() == [-20.0, -15.0, 10.0, 40.0, 40.0]


def test_incidence_by_hand() -> None:
    time, event = events(FIRST, ONSET, NO_RETURN, ONSET)
    times, share = cumulative_incidence(time, event, Event.DETECTED)
    assert times.tolist() == [0.0, 5.0, 30.0, 60.0]
    assert share.tolist() == pytest.approx([0.0, 0.2, 0.4, 0.4], abs=1e-12)
    assert cumulative_incidence(time, event, Event.STOPPED_BEFORE)[1][-1] == pytest.approx(0.2, abs=1e-12)
    assert sum(cumulative_incidence(time, event, kind)[1][-1] for kind in Event) == pytest.approx(1.0, abs=1e-12)


def test_incidence_of_nothing() -> None:
    times, share = cumulative_incidence(np.array([]), np.array([]), Event.DETECTED)
    assert len(times) == len(share) == 0


def test_incidence_is_aalen_and_johansens() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of lifelines' own dependencies
        from lifelines import AalenJohansenFitter
    random = np.random.default_rng(1)
    time = random.permutation(60).astype(float) + 1.0  # no ties, which lifelines would jitter
    event = random.integers(1, 4, 60)
    for kind in Event:
        fitted = AalenJohansenFitter(calculate_variance=False).fit(time, event, event_of_interest=int(kind))
        times, share = cumulative_incidence(time, event, kind)
        table = fitted.cumulative_density_.iloc[:, 0]
        assert share == pytest.approx(table.loc[times].to_numpy(), abs=1e-12)


def test_restricted_delay_by_hand() -> None:
    steps, share = restricted_delay(FIRST, ONSET, NO_RETURN, ONSET)
    assert steps.tolist() == [60.0, 5.0, 30.0, 60.0, 60.0]
    assert share.tolist() == pytest.approx([1.0, 5 / 60, 0.5, 1.0, 1.0], abs=1e-12)
    # From v: an alarm before v counts as at v, and so earns no more than one at v.
    steps, share = restricted_delay(FIRST, ONSET, NO_RETURN, VISIBLE)
    assert steps.tolist() == [40.0, 0.0, 10.0, 40.0, 40.0]
    assert share.tolist() == pytest.approx([1.0, 0.0, 0.25, 1.0, 1.0], abs=1e-12)


def test_a_run_that_is_lost_at_once_has_no_horizon() -> None:
    first, onset = np.array([20.0, 25.0]), np.full(2, 20.0)
    steps, share = restricted_delay(first, onset, np.array([25.0, 20.0]), np.array([25.0, 20.0]))
    assert steps.tolist() == [0.0, 0.0]
    assert share.tolist() == [0.0, 1.0]

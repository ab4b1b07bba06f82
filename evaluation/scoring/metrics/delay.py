"""Metric 3: time to detection, with competing events."""

from enum import IntEnum

import numpy as np

from trainwreck.evaluation.scoring.metrics.recall import in_time


class Event(IntEnum):
    """What ended the wait for an alarm. Each failing run has exactly one, so nothing is censored."""

    DETECTED = 1  # s <= a < p
    STOPPED_BEFORE = 2  # a < s: a false alarm took the run away
    LOST = 3  # no alarm before p


def events(
    first: np.ndarray, onset: np.ndarray, no_return: np.ndarray, origin: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Time from the origin (s or v) to the event, in steps, and the event. [N], [N]

    A false stop happens before the clock starts and counts at the onset.
    """
    detected, before = in_time(first, onset, no_return), first < onset
    event = np.where(detected, Event.DETECTED, np.where(before, Event.STOPPED_BEFORE, Event.LOST))
    at = np.where(detected, first, np.where(before, onset, no_return))
    return at - origin, event


def cumulative_incidence(
    time: np.ndarray, event: np.ndarray, cause: int, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Share of the runs that met this event by each time: times [K], shares [K].

    The Aalen-Johansen estimate, which is this plain share when no run is censored. A competing
    event keeps its run in the denominator: it is a miss, not a run that would have been detected.
    weights: [N], where runs do not count the same.
    """
    weights = np.ones(len(time)) if weights is None else weights
    times, code = np.unique(time, return_inverse=True)
    met = np.bincount(code, weights=np.where(event == cause, weights, 0.0), minlength=len(times))
    return times, np.cumsum(met) / max(weights.sum(), 1e-300)


def restricted_delay(
    first: np.ndarray, onset: np.ndarray, no_return: np.ndarray, origin: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Steps from the origin (s or v) to the alarm, and the same as a share of the horizon. [N], [N]

    The horizon is the run's own p less the origin; a miss and a false stop count at it. An alarm
    before the origin counts as at it.
    """
    horizon = np.maximum(no_return - origin, 0.0)
    delay = np.where(in_time(first, onset, no_return), np.maximum(first - origin, 0.0), horizon)
    late = ~in_time(first, onset, no_return)
    return delay, np.divide(delay, horizon, out=late.astype(np.float64), where=horizon > 0)


def lead(first: np.ndarray, onset: np.ndarray, visible: np.ndarray, no_return: np.ndarray) -> np.ndarray:
    """clip((p - a) / (p - v), 0, 1); 0 for a miss and for an alarm before s. [N]

    1 for an alarm at v or sooner, 0 at p. A run that is lost before it is visible (p <= v) has no
    such span; there the lead is 1 if the alarm is in time.
    """
    detected = in_time(first, onset, no_return)
    span = no_return - visible
    left = np.where(detected, no_return - first, 0.0)
    share = np.divide(left, span, out=np.ones_like(left), where=span > 0)
    return np.where(detected, np.clip(share, 0.0, 1.0), 0.0)

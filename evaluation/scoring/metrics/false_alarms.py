"""Metrics 1 and 1b: how often a detector cries wolf."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trainwreck.evaluation.constants import CONFIDENCE, RATE_STEPS
from trainwreck.evaluation.intervals import binomial_interval, poisson_interval


class Share(NamedTuple):
    """Events over an exposure, with an exact interval. NaN where there was no exposure."""

    value: float
    low: float
    high: float
    events: int
    exposure: int


def healthy_steps(negative: np.ndarray, last: np.ndarray, onset: np.ndarray) -> np.ndarray:
    """Steps of each run at which nothing is wrong: all of a negative, those before the onset of the rest. [N]"""
    return np.where(negative, last + 1, np.minimum(onset, last + 1)).astype(np.int64)


def false_alarm_rate(edges: Sequence[np.ndarray], steps: np.ndarray, confidence: float = CONFIDENCE) -> Share:
    """Metric 1: new alarms per 10^4 healthy steps, with the exact Poisson interval.

    edges: steps of the new alarms of each run. steps: [N], healthy steps of each run, counted from
    step 0. The interval takes alarms for independent, which those of one twin set are not.
    """
    count = sum(int((run < healthy).sum()) for run, healthy in zip(edges, steps, strict=True))
    exposure = int(steps.sum())
    if not exposure:
        return Share(np.nan, np.nan, np.nan, count, 0)
    low, high = poisson_interval(count, confidence)
    scale = RATE_STEPS / exposure
    return Share(count * scale, low * scale, high * scale, count, exposure)


def false_stop(first: np.ndarray, confidence: float = CONFIDENCE) -> Share:
    """Metric 1b: share of runs with any alarm, with the exact binomial interval. first: [N], inf without one."""
    count, exposure = int(np.isfinite(first).sum()), len(first)
    if not exposure:
        return Share(np.nan, np.nan, np.nan, count, 0)
    return Share(count / exposure, *binomial_interval(count, exposure, confidence), count, exposure)

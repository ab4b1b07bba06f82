"""Metrics 1 and 1b: how often a detector cries wolf."""

from typing import NamedTuple

import numpy as np


class Share(NamedTuple):
    """Events over an exposure, with an interval. NaN where there was no exposure; events are expected ones where a
    threshold is randomised."""

    value: float
    low: float
    high: float
    events: float
    exposure: int


def healthy_steps(negative: np.ndarray, last: np.ndarray, onset: np.ndarray) -> np.ndarray:
    """Steps of each run at which nothing is wrong: all of a negative, those before the onset of the rest. [N]"""
    return np.where(negative, last + 1, np.minimum(onset, last + 1)).astype(np.int64)

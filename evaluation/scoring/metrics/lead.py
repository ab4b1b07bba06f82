"""Metric 4: how much of the time between visible and lost is left at the alarm."""

import numpy as np

from trainwreck.evaluation.scoring.metrics.recall import in_time


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

"""Healthy steps, by hand."""

import numpy as np

from trainwreck.evaluation.scoring.metrics.false_alarms import healthy_steps


def test_healthy_steps() -> None:
    negative = np.array([True, False, False, False])
    last, onset = np.array([99.0, 99.0, 99.0, 99.0]), np.array([np.inf, 20.0, 0.0, np.inf])
    assert healthy_steps(negative, last, onset).tolist() == [100, 20, 0, 100]

"""Metric 4, by hand."""

import numpy as np
import pytest

from trainwreck.evaluation.scoring.metrics.delay import lead


def test_lead_by_hand() -> None:
    first = np.array([19.0, 20.0, 40.0, 50.0, 79.0, 80.0, np.inf])
    found = lead(first, np.full(7, 20.0), np.full(7, 40.0), np.full(7, 80.0))
    assert found.tolist() == pytest.approx([0.0, 1.0, 1.0, 0.75, 0.025, 0.0, 0.0], abs=1e-12)


def test_lost_before_visible() -> None:
    first, onset = np.array([25.0, 40.0, np.inf]), np.full(3, 20.0)
    assert lead(first, onset, np.full(3, 40.0), np.full(3, 40.0)).tolist() == [1.0, 0.0, 0.0]
    assert lead(first, onset, np.full(3, 40.0), np.full(3, 30.0)).tolist() == [1.0, 0.0, 0.0]

"""A score without bound at a loss that is not finite outranks one elsewhere, and nothing else is touched."""

import math
import sys
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.detectors.base import Detector, Row, Verdict
from trainwreck.evaluation.detectors.registry import load_detector
from trainwreck.evaluation.replay.replay import replay


class Unbounded(Detector):
    """Infinite where the gradient or the loss is not finite."""

    def update(self, row: Row) -> Verdict:
        broken = any(row[name] is not None and not math.isfinite(row[name]) for name in ("loss", "grad_norm"))
        return Verdict(math.inf if broken else 1.0, broken, ("high_lr",) if broken else ())


class Bare(Detector):
    """Alarms at every row: it must not learn from the harness that a loss is not finite."""

    def update(self, row: Row) -> bool:
        return True


@pytest.fixture
def broken(make_trace: Any) -> Any:
    """The gradient overflows at step 30; the loss is NaN from step 60 on."""
    steps = np.arange(100)
    loss = np.where(steps >= 60, np.nan, 1.0)
    return make_trace("r", steps=100, loss=loss, grad_norm=np.where(steps == 30, np.inf, 1.0))


def test_a_loss_that_is_not_finite_outranks_a_gradient_that_overflows(broken: Any) -> None:
    found = replay(Unbounded, broken)
    assert found.status == "ok"
    assert found.scores[29:31].tolist() == [1.0, sys.float_info.max]
    assert found.scores[59:62].tolist() == [1.0, math.inf, math.inf]
    assert found.answers == ((30, ("high_lr",)),)


@pytest.mark.parametrize("name", ["playbook", "learned", "nonfinite_or_plateau"])
@pytest.mark.parametrize("profile", ["full", "common", "minimal"])
def test_a_loss_that_is_not_finite_outranks_a_spike_that_comes_back(name: str, profile: str, make_trace: Any) -> None:
    steps = np.arange(100)
    loss = np.where(steps == 40, 1e6, 4.0 - 0.02 * steps)
    found = replay(load_detector(name), make_trace("r", steps=100, loss=np.where(steps >= 70, np.nan, loss)), profile)
    before = found.steps < 70
    assert (found.scores[~before] == math.inf).all()
    assert np.isfinite(found.scores[before]).all()
    assert found.alarm[~before].all()


def test_where_the_profile_hides_it_nothing_outranks(broken: Any) -> None:
    assert np.isfinite(replay(Unbounded, broken, "filtered").scores).all()


def test_an_alarm_without_a_score_is_what_it_was(broken: Any) -> None:
    assert set(replay(Bare, broken).scores.tolist()) == {1.0}

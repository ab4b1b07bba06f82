"""A loss by its fall: what another unit, interval or length changes, and what a healthy log shows."""

import math

import numpy as np
import pytest

from trainwreck.evaluation.detectors.playbook.fall import Fall
from trainwreck.evaluation.detectors.playbook.playbook import Playbook

S, ONSET = 400, 200
T = np.arange(S)
NOISE = 0.02 * np.random.default_rng(3).standard_normal(S)
HEALTHY = 2.0 + 2.0 * np.exp(-T / 60.0) + NOISE
RISEN = HEALTHY + np.where(T >= ONSET, 0.8, 0.0)
STUCK = 3.0 + np.exp(-T / 2.0) + NOISE
FLAT = 4.0 + NOISE
SPIKED = HEALTHY + np.where((ONSET <= T) & (T < ONSET + 6), 3.0, 0.0)  # several rows, and back
LEAPT = HEALTHY + np.where((T >= 1) & (T < 12), 6.0, 0.0)  # the first rows of a run without a warm-up


def seen(values: np.ndarray, interval: int = 1) -> Fall:
    fall = Fall()
    for step, value in enumerate(values.tolist()):
        fall.push(interval * step, value)
    return fall


def watched(name: str, values: np.ndarray, interval: int = 1) -> tuple[int | None, tuple[str, ...], float]:
    """First alarm, its causes, and the largest score of a log that has one signal."""
    detector, first, causes, most = Playbook(), None, (), 0.0
    detector.reset(None)
    for row, value in enumerate(values.tolist()):
        verdict = detector.update({"step": interval * row, name: value})
        most = max(most, verdict.score)
        if verdict.alarm and first is None:
            first, causes = row, verdict.causes
    return first, causes, most


@pytest.mark.parametrize("curve", [RISEN, STUCK, SPIKED, LEAPT])
@pytest.mark.parametrize(("factor", "constant"), [(8.0, 0.0), (0.1, 30.0), (1.0, -1.5)])
def test_neither_a_factor_nor_a_constant_changes_anything(curve: np.ndarray, factor: float, constant: float) -> None:
    plain, mapped = seen(curve), seen(factor * curve + constant)
    assert mapped.given_back == pytest.approx(plain.given_back, abs=1e-9)
    assert mapped.idle == plain.idle
    assert mapped.off == pytest.approx(plain.off)


@pytest.mark.parametrize("interval", [10, 500])
def test_nor_does_the_interval(interval: int) -> None:
    assert seen(RISEN, interval).given_back == pytest.approx(seen(RISEN).given_back)
    assert seen(STUCK, interval).idle == pytest.approx(seen(STUCK).idle)


def test_rows_that_are_dense_at_first_count_by_their_steps() -> None:
    """A hundred rows of the first hundred steps, flat within a warm-up, are next to nothing of the run."""
    dense, sparse = Fall(), Fall()
    for row in range(100):
        dense.push(row, 9.0 - 6.0 * min(row, 3) / 3)
        sparse.push(row, 9.0 - 6.0 * min(row, 3) / 3)
    assert dense.idle > 0.9
    for row in range(10):
        sparse.push(1_000 * (row + 1), 3.0 - 0.2 * row)
    assert sparse.idle < 0.5


@pytest.mark.parametrize("curve", [RISEN, STUCK, FLAT])
@pytest.mark.parametrize(("factor", "constant", "interval"), [(8.0, 0.0, 1), (1.0, 30.0, 1), (1.0, 0.0, 500)])
def test_the_playbook_alarms_at_the_same_row_in_any_log(
    curve: np.ndarray, factor: float, constant: float, interval: int
) -> None:
    first, causes, _ = watched("loss", curve)
    assert first is not None
    assert watched("loss", factor * curve + constant, interval)[:2] == (first, causes)


@pytest.mark.parametrize("curve", [HEALTHY, SPIKED, LEAPT])
def test_what_healthy_logs_show_is_left_alone(curve: np.ndarray) -> None:
    for factor, constant in ((1.0, 0.0), (8.0, 0.0), (0.5, 20.0)):
        assert watched("loss", factor * curve + constant)[0] is None


def test_no_progress_is_an_alarm() -> None:
    first, causes, _ = watched("loss", STUCK)
    assert first is not None
    assert 99 <= first < S
    assert causes[0] == "labels_detached"
    assert watched("loss", np.full(S, 4.0))[0] == 199
    assert watched("loss", FLAT)[1][0] == "lr_too_low"


def test_a_rise_that_lasts_is_an_alarm_soon() -> None:
    first = watched("loss", RISEN)[0]
    assert first is not None
    assert ONSET < first < ONSET + 60


def test_a_norm_of_another_time_is_no_baseline() -> None:
    """Many logs have every step at first and one in 500 later: the norm may have grown by much between two rows."""
    norms = 0.2 * 1.1 ** np.arange(60.0)
    assert watched("grad_norm", norms)[0] is not None
    detector, scores = Playbook(), []
    detector.reset(None)
    for row, norm in enumerate(np.concatenate([np.full(40, 0.2), np.full(30, 1.2)]).tolist()):
        step = row if row < 40 else 40 + 500 * (row - 40)
        scores.append(detector.update({"step": step, "grad_norm": norm}).score)
    assert max(scores) < 0.5
    assert watched("grad_norm", np.concatenate([np.full(40, 0.2), np.geomspace(0.3, 1.2, 30)]))[2] >= 0.5


def test_what_is_not_known_yet_is_nothing() -> None:
    fall = seen(np.array([4.0, 4.1, 3.9]))
    assert (fall.given_back, fall.idle) == (0.0, 0.0)
    assert math.isnan(fall.fallen)

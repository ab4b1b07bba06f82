"""Each one-liner on a curve worked by hand."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.detectors.base import LARGEST_SCORE
from trainwreck.evaluation.detectors.sanity.any_zscore import AnyZScore
from trainwreck.evaluation.detectors.sanity.grad_norm_zscore import GradNormZScore
from trainwreck.evaluation.detectors.sanity.loss_over_minimum import LossOverMinimum
from trainwreck.evaluation.detectors.sanity.nonfinite_loss import NonfiniteLoss
from trainwreck.evaluation.detectors.sanity.nonfinite_or_plateau import NonfiniteOrPlateau


def run(detector: Any, signal: str, values: Sequence[float | None]) -> list[Any]:
    detector.reset(None)
    return [detector.update({"step": step, signal: value}) for step, value in enumerate(values)]


def alarms(detector: Any, signal: str, values: Sequence[float | None]) -> list[int]:
    return [step for step, verdict in enumerate(run(detector, signal, values)) if verdict.alarm]


def test_nonfinite_loss() -> None:
    assert run(NonfiniteLoss(), "loss", [4.0, None, math.nan, 1e38, math.inf]) == [False, False, True, False, True]


def test_loss_over_minimum() -> None:
    # The minimum is 2 from row 1 on: exactly twice it is no alarm, more is.
    verdicts = run(LossOverMinimum(), "loss", [4.0, 2.0, 4.0, 4.1, None, math.nan, math.inf])
    assert [verdict.alarm for verdict in verdicts] == [False, False, False, True, False, False, True]
    assert [round(verdict.score, 12) for verdict in verdicts[:6]] == [1.0, 1.0, 2.0, 2.05, 0.0, 0.0]


def test_loss_over_minimum_is_blind_near_a_loss_of_zero() -> None:
    assert alarms(LossOverMinimum(), "loss", [1.0, 0.0, 50.0]) == []


def test_grad_norm_zscore() -> None:
    # 25 ones and 25 threes: mean 2, standard deviation 1. Eight is z = 6 exactly, no alarm.
    calm: list[float | None] = [1.0, 3.0] * 25
    assert run(GradNormZScore(), "grad_norm", [*calm, 8.0])[-1].score == 6.0
    assert alarms(GradNormZScore(), "grad_norm", [*calm, 8.0]) == []
    assert alarms(GradNormZScore(), "grad_norm", [*calm, None, 8.001]) == [51]
    assert alarms(GradNormZScore(), "grad_norm", [*calm[:-1], 800.0]) == []  # window not full


def test_grad_norm_zscore_is_blinded_by_one_infinity_and_sees_again() -> None:
    calm: list[float | None] = [1.0, 3.0] * 25
    assert alarms(GradNormZScore(), "grad_norm", [*calm, math.inf, 99.0, *calm, *calm, 99.0]) == [50, 152]


def test_nonfinite_or_plateau() -> None:
    # Means of two: 8, 7, 5, 4, 4, 3.875, 3.75, 3. From 8 to 4 it is 4, of which an eighth is 0.5: 3 is progress.
    detector = NonfiniteOrPlateau(patience=4, window=2, share=0.125)
    losses: list[float | None] = [8.0, 8.0, 6.0, 4.0, 4.0, None, 4.0, 3.75, 3.75, 2.25]
    found = run(detector, "loss", losses)
    assert [verdict.score for verdict in found] == [0.0, 0.25, 0.0, 0.0, 0.0, 0.0, 0.25, 0.5, 0.75, 0.0]
    assert not any(verdict.alarm for verdict in found)
    # No more than an eighth is none. The alarm comes with the fourth row, and lasts until there is progress.
    assert alarms(detector, "loss", [8.0, 8.0, 4.0, 4.0, *[3.5] * 5, 3.0, 3.0]) == [7, 8]
    # From the first row on, where there never was progress.
    assert alarms(detector, "loss", [3.0, 3.0, 4.0, 5.0, 6.0]) == [4]


def test_nonfinite_or_plateau_puts_a_nonfinite_loss_above_every_plateau() -> None:
    losses: list[float | None] = [2.0, math.nan, -math.inf, math.inf, *[2.0] * 900]
    found = run(NonfiniteOrPlateau(), "loss", losses)
    assert [verdict.alarm for verdict in found[:5]] == [False, True, True, True, False]
    assert {verdict.score for verdict in found[1:4]} == {LARGEST_SCORE}
    assert [step for step, verdict in enumerate(found[4:], start=4) if verdict.alarm] == list(range(200, 904))
    assert found[-1].score == 903 / 200


@pytest.mark.parametrize(("scale", "shift"), [(0.25, 0.0), (64.0, 0.0), (1.0, -8.0), (0.5, 1024.0)])
def test_nonfinite_or_plateau_is_the_same_in_another_unit(scale: float, shift: float) -> None:
    noise = np.random.default_rng(0).integers(-64, 64, 700) / 64  # so that sums and products are exact
    losses = np.round(64 * np.maximum(3.0, 9.0 - np.arange(700) / 50)) / 64 + noise
    before = run(NonfiniteOrPlateau(window=16), "loss", losses.tolist())
    assert run(NonfiniteOrPlateau(window=16), "loss", (scale * losses + shift).tolist()) == before
    assert any(verdict.alarm for verdict in before)


def test_any_zscore() -> None:
    detector = AnyZScore(span=9, least=4, threshold=5.0)
    detector.reset(None)
    still = {"lr": 0.1, "layer_grad_norm": [1.0, 3.0]}
    found = [detector.update({"step": i, "loss": 2.0 + (i % 2), **still}).alarm for i in range(30)]
    assert not any(found)
    assert detector.update({"step": 30, "loss": 2.5, "lr": 0.1, "layer_grad_norm": None}).alarm is False
    assert detector.update({"step": 31, "loss": 9.0, "lr": 0.1, "layer_grad_norm": None}).alarm is True


def test_any_zscore_has_no_scale_for_a_signal_that_never_moved() -> None:
    assert alarms(AnyZScore(), "lr", [0.1] * 60 + [0.2]) == []


def test_any_zscore_reads_the_mean_of_a_list() -> None:
    detector = AnyZScore(span=9, least=4, threshold=5.0)
    detector.reset(None)
    for i in range(30):
        detector.update({"step": i, "head_entropy": [1.0 + (i % 2), 2.0]})
    assert detector.update({"step": 30, "head_entropy": [1.5, 2.0]}).score < 1.0
    assert detector.update({"step": 31, "head_entropy": [1.5, 20.0]}).alarm


def test_any_zscore_waits_for_a_scale_and_ignores_rounding() -> None:
    assert alarms(AnyZScore(), "loss", [1.0, 1.0001, 50.0]) == []
    rounding: list[float | None] = [1e8 + 1e-7 * (i % 2) for i in range(60)]
    assert alarms(AnyZScore(), "tokens_per_second", [*rounding, 1e8 + 1e-3]) == []

"""Each one-liner on a curve worked by hand."""

import math
from collections.abc import Sequence
from typing import Any

from trainwreck.evaluation.detectors.sanity.any_zscore import AnyZScore
from trainwreck.evaluation.detectors.sanity.grad_norm_zscore import GradNormZScore
from trainwreck.evaluation.detectors.sanity.loss_over_minimum import LossOverMinimum
from trainwreck.evaluation.detectors.sanity.nonfinite_loss import NonfiniteLoss


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

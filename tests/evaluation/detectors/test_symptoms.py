"""SageMaker Debugger's, DeepDiagnosis' and AutoTrainer's rules: each at its threshold and just short of it."""

import math
from typing import Any

import pytest

from trainwreck.evaluation.detectors.published.autotrainer import AutoTrainer
from trainwreck.evaluation.detectors.published.deepdiagnosis import DeepDiagnosis
from trainwreck.evaluation.detectors.published.smdebug_rules import SmdebugRules

CALM = {
    "loss": 4.0, "layer_grad_norm": [1.0, 1.0], "layer_update_ratio": [1e-3, 1e-3], "activation_std": [1.0, 2.0],
    "dead_share": [0.0, 0.1], "nonfinite_grads": 0.0, "nonfinite_weights": 0.0, "activation_max": [3.0, 4.0],
    "grad_norm": 1.0, "activation_mean": [0.1, 0.2], "zero_grads": 0.0,
}  # fmt: skip


def said(detector: Any, rows: list[dict[str, Any]], context: Any = None) -> list[Any]:
    detector.reset(context)
    return [detector.update(CALM | {"step": step} | row) for step, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("calm", "fires"),
    [
        ({"layer_grad_norm": [1.0, 1.1e-7]}, {"layer_grad_norm": [1.0, 0.99e-7]}),
        ({"layer_grad_norm": [1.0, 1.1e-7]}, {"layer_grad_norm": [1.0, 0.0]}),
        ({}, {"loss": math.nan}),
        ({}, {"grad_norm": math.inf}),
        ({}, {"activation_max": [3.0, math.nan]}),
        ({}, {"nonfinite_grads": 1.0}),
        ({}, {"nonfinite_weights": 1.0}),
        ({"layer_update_ratio": [9.9, 1e-3]}, {"layer_update_ratio": [10.1, 1e-3]}),
        ({"layer_update_ratio": [1.1e-8, 1e-3]}, {"layer_update_ratio": [0.9e-8, 1e-3]}),
        ({"dead_share": [0.5, 0.0]}, {"dead_share": [0.51, 0.0]}),
        ({"activation_std": [1.0, 3.16]}, {"activation_std": [1.0, 3.17]}),
    ],
)
def test_a_debugger_rule_at_its_threshold(calm: dict[str, Any], fires: dict[str, Any]) -> None:
    assert not said(SmdebugRules(), [{}, calm])[-1].alarm
    assert said(SmdebugRules(), [{}, fires])[-1].alarm


def test_debugger_loss_not_decreasing_compares_every_ten_rows() -> None:
    def alarms(losses: list[float]) -> list[int]:
        return [i for i, one in enumerate(said(SmdebugRules(), [{"loss": x} for x in losses])) if one.alarm]

    assert alarms([4.0] + [9.0] * 9 + [3.99] + [9.0] * 9 + [3.98]) == []  # the losses between are not evaluated
    assert alarms([4.0] + [1.0] * 9 + [3.99] + [1.0] * 9 + [3.99]) == [20]
    assert said(SmdebugRules(), [{"loss": 4.0}] * 10 + [{"loss": 6.0}])[-1].score == 1.5


def test_debugger_overfit_and_unchanged_tensor() -> None:
    falling = [{"loss": 4.0 - 0.1 * i} for i in range(4)]  # mean 3.85
    assert not said(SmdebugRules(), [*falling, {"loss": 3.6, "validation_loss": 4.1}])[-1].alarm
    mean = (4.0 + 3.9 + 3.8 + 3.7 + 3.6) / 5
    last = said(SmdebugRules(), [*falling, {"loss": 3.6, "validation_loss": 1.2 * mean}])[-1]
    assert last.alarm
    assert last.score == pytest.approx(2.0)
    still = {"layer_update_ratio": [1e-6, 0.9e-5]}
    assert not said(SmdebugRules(), [{}, still, still])[-1].alarm
    assert said(SmdebugRules(), [{}, still, still, still])[-1].alarm


def test_debugger_looks_at_initialisation_for_ten_rows_only() -> None:
    wide = {"activation_std": [1.0, 5.0]}
    found = [one.alarm for one in said(SmdebugRules(), [{"loss": 4.0 - 0.1 * i} | wide for i in range(15)])]
    assert found == [True] * 10 + [False] * 5


def lively(rows: int) -> list[dict[str, Any]]:
    """Rows in which everything that DeepDiagnosis watches moves."""
    return [
        {
            "loss": 4.0 - 0.01 * i,
            "layer_grad_norm": [1.0 + 0.1 * (i % 3)] * 2,
            "activation_mean": [0.1 + 0.01 * (i % 2)],
        }
        for i in range(rows)
    ]


@pytest.mark.parametrize(
    ("row", "fires"),
    [
        ({"loss": math.inf}, True),
        ({"loss": 0.0}, False),
        ({"activation_mean": [0.0, 0.1]}, True),
        ({"activation_mean": [1e-12, 0.1]}, False),
        ({"layer_grad_norm": [1.0, 0.0]}, True),
        ({"layer_grad_norm": [1.0, 0.9e-7]}, True),
        ({"layer_grad_norm": [1.0, 1.1e-7]}, False),
        ({"nonfinite_weights": 2.0}, True),
    ],
)
def test_a_numerical_symptom_of_deepdiagnosis(row: dict[str, Any], fires: bool) -> None:
    assert said(DeepDiagnosis(), [*lively(3), row])[-1].alarm is fires


def test_deepdiagnosis_looks_for_what_does_not_change_every_fifth_row() -> None:
    assert not any(one.alarm for one in said(DeepDiagnosis(), lively(20)))
    stuck = [row | {"loss": 4.0} for row in lively(10)]
    assert [i for i, one in enumerate(said(DeepDiagnosis(), stuck)) if one.alarm] == [4, 9]
    late = lively(7) + [row | {"layer_weight_norm": [2.0, 3.0 + i]} for i, row in enumerate(lively(8))]
    assert [i for i, one in enumerate(said(DeepDiagnosis(), late)) if one.alarm] == [14]
    dead = [row | {"dead_share": [0.69 if i < 5 else 0.7]} for i, row in enumerate(lively(10))]
    assert [i for i, one in enumerate(said(DeepDiagnosis(), dead)) if one.alarm] == [9]


@pytest.mark.parametrize(
    ("row", "score"),
    [
        ({"layer_grad_norm": [9.0, 69.0, 1.0, 9.0]}, 69 / 70),
        ({"layer_grad_norm": [9.0, 77.0, 1.0, 9.0]}, 1.1),
        ({"layer_grad_norm": [9.0, 5e-5, 0.1, 9.0]}, 2.0),  # ratio 5e-4, norm 5e-5
        ({"layer_grad_norm": [9.0, 5e-5, 0.01, 9.0]}, 0.2),  # the ratio 5e-3 holds it back
        ({"layer_grad_norm": [9.0, 2e-4, 1.0, 9.0]}, 0.5),  # the norm does
        ({"zero_grads": 0.35}, 0.5),
        ({"zero_grads": 0.7}, 1.0),
        ({"loss": math.nan}, 1e300),
    ],
)
def test_a_symptom_of_autotrainer(row: dict[str, Any], score: float) -> None:
    calm = {"layer_grad_norm": [1.0, 0.0, 0.0, 1.0]}
    found = said(AutoTrainer(), [calm | row])[-1]
    assert found.score == pytest.approx(score)
    assert found.alarm is (score >= 1.0)


QUIET = {"layer_grad_norm": [1.0, 0.0, 0.0, 1.0]}  # nothing of the gradient


def epochs(accuracies: list[float], context: Any = None) -> list[float]:
    """Scores at the end of each ten rows with these accuracies."""
    rows = [QUIET | {"loss": -math.log(accuracy)} for accuracy in accuracies for _ in range(10)]
    return [one.score for one in said(AutoTrainer(), rows, context)][9::10]


def test_autotrainer_slow_convergence_is_judged_after_a_hundred_rows() -> None:
    slow = epochs([0.1 + 0.005 * i for i in range(12)])
    assert slow[:9] == [0.0] * 9
    assert slow[9:] == pytest.approx([2.0] * 3)  # .01 over a gain of .005
    assert epochs([0.1 + 0.02 * i for i in range(12)])[-1] == pytest.approx(0.5)
    assert epochs([0.1 + 0.005 * i for i in range(12)], {"planned_steps": 100})[2] == pytest.approx(2.0)


def test_autotrainer_counts_turns_of_the_accuracy() -> None:
    # Up .05 and down .05 from the second ten on: 8 inner extremes of 10, so 4 pairs; 4 / (.2 x 10) is 2.
    assert epochs([0.3, 0.35] * 5)[-1] == pytest.approx(2.0)
    assert epochs([0.3, 0.32] * 5)[-1] == pytest.approx(0.5)  # turns of .02 are none; the gain of .02 is left

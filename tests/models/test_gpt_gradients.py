"""Logits, loss and every gradient of the stacked model against a plain one, in float32 and float64."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from trainwreck.models.config import Activation, Norm, Placement, Positions

EPS32, EPS64 = (torch.finfo(dtype).eps for dtype in (torch.float32, torch.float64))

STRUCTURES = [
    {"placement": placement, "norm": norm, "activation": activation, "qk_norm": qk_norm, "z_loss": z_loss}
    for placement, norm, activation, qk_norm, z_loss in itertools.product(
        Placement, Norm, Activation, (False, True), (0.0, 1e-2)
    )
]
SHAPES = [
    {"runs": 65, "rows": 1, "context": 1, "layers": 1, "width": 2, "heads": 1, "vocab_size": 2, "mlp_ratio": 1},
    {"runs": 5, "rows": 5, "context": 33, "layers": 1, "width": 20, "heads": 2, "vocab_size": 37, "mlp_ratio": 3},
    {"runs": 5, "rows": 1, "context": 13, "layers": 3, "width": 18, "heads": 3, "vocab_size": 53},
    {"runs": 4, "rows": 2, "context": 16, "layers": 2, "width": 32, "heads": 16, "vocab_size": 64, "mlp_ratio": 4},
    {"runs": 32, "rows": 2, "context": 9, "layers": 9, "width": 8, "heads": 4, "vocab_size": 5},
]
OPTIONS = [
    {"bias": False},
    {"bias": False, "norm": Norm.RMS, "activation": Activation.SWIGLU},
    {"residual_gain": 8**0.25, "placement": Placement.POST},
    {"residual_gain": 0.5},
    {"rope_base": 100.0},
    {"norm_eps": 0.1, "qk_norm": True},
    {"positions": Positions.DOCUMENT},
    {"lora_rank": 3, "lora_alpha": 1.5},
    {"lora_rank": 1, "lora_alpha": 0.5, "placement": Placement.POST, "bias": False, "activation": Activation.SWIGLU},
    {"positions": Positions.ROW, "placement": Placement.POST, "bias": False},
    {"tied": True, "z_loss": 1e-2},
    {"tied": True, "bias": False, "norm": Norm.RMS},
    {"tied": True, "placement": Placement.POST},
]


def name_of(case: dict[str, Any]) -> str:
    return "-".join(str(getattr(v, "value", v)) for v in case.values())


@pytest.mark.parametrize("case", [*STRUCTURES, *SHAPES, *OPTIONS], ids=name_of)
def test_the_stacked_model_is_the_plain_one(
    case: dict[str, Any],
    make_problem: Callable[..., Any],
    stacked: Callable[..., Any],
    assert_within_budget: Callable[..., None],
) -> None:
    problem = make_problem(**{"runs": 8} | case)
    exact, own = problem.plain(torch.float64), problem.plain(torch.float32)
    assert_within_budget(stacked(problem, torch.float32), own, exact, torch.float32)
    # Errors go with eps, so what plain float32 has tells what either side may have in float64.
    wide = stacked(problem, torch.float64)
    assert_within_budget(wide, own, exact, torch.float64, share=2 * EPS64 / EPS32)
    for name, right in exact.items():
        for i in range(len(right)):
            error, other = (wide[name][i] - right[i]).norm(), (own[name][i].double() - right[i]).norm()
            assert error <= max(EPS32 * right[i].norm(), other), f"{name} of run {i}"


@pytest.mark.parametrize("placement", Placement)
def test_a_token_without_weight_and_what_it_alone_sees_get_no_gradient(
    placement: Placement, make_problem: Callable[..., Any], stacked: Callable[..., Any]
) -> None:
    problem = make_problem(placement=placement, vocab_size=50, z_loss=1e-2)
    problem.tokens %= 40
    padding = problem.documents < 0
    assert padding.any()
    problem.tokens[padding] = 41  # a token that stands in the padding alone
    problem.weight[padding.flatten(1)] = 0
    grad = stacked(problem, torch.float32)["embedding.weight"]
    assert not grad[:, 41].any()
    assert grad[:, problem.tokens[0, 0, 0]].any()


def test_a_run_without_any_weight_has_no_loss_and_no_gradient(
    make_problem: Callable[..., Any], stacked: Callable[..., Any]
) -> None:
    problem = make_problem(runs=3, z_loss=1e-2)
    problem.weight[1] = 0
    result = stacked(problem, torch.float32)
    result.pop("logits")
    assert not any(value[1].any() for value in result.values())
    assert all(value[0].any() and value[2].any() for value in result.values())

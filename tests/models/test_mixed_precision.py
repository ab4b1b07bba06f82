"""The model in bfloat16 and float16: errors against autocast's, and float32 master weights."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from trainwreck.models import optim
from trainwreck.models.config import Activation, Format, Norm, Placement
from trainwreck.models.parameters import layout

HALF = {Format.BF16: torch.bfloat16, Format.FP16: torch.float16}


@pytest.mark.parametrize(
    "case",
    [{}, {"placement": Placement.POST}, {"norm": Norm.RMS, "activation": Activation.SWIGLU, "qk_norm": True}],
    ids=["pre", "post", "swiglu"],
)
@pytest.mark.parametrize("format", HALF)
def test_logits_and_gradients_are_within_twice_the_error_of_autocast(
    format: Format,
    case: dict[str, Any],
    make_problem: Callable[..., Any],
    stacked: Callable[..., Any],
    assert_within_budget: Callable[..., None],
) -> None:
    problem = make_problem(runs=8, z_loss=1e-3, context=16, width=24, **case)
    factor = 1024.0 if format is Format.FP16 else 1.0  # a loss scale, as float16 gradients underflow without
    exact = problem.plain(torch.float64, factor)
    with torch.autocast("cpu", dtype=HALF[format]):
        own = problem.plain(torch.float32, factor)
    got = stacked(problem, torch.float32, format=format, factor=factor)
    assert got["logits"].dtype == HALF[format]
    assert all(value.dtype == torch.float32 for name, value in got.items() if name != "logits")
    assert_within_budget(got, own, exact, HALF[format])


@pytest.mark.parametrize("format", HALF)
def test_matrices_count_as_rounded_and_are_kept_unrounded(
    format: Format, make_problem: Callable[..., Any], stacked: Callable[..., Any]
) -> None:
    problem = make_problem(bias=False, norm=Norm.RMS)
    problem.flat = problem.flat.float().double()
    held = problem.flat.clone()
    before = stacked(problem, torch.float32, format=format)["logits"]
    assert torch.equal(problem.flat, held)
    for slot in layout(problem.config).slots:
        if slot.decay:
            part = problem.flat[:, slot.start : slot.stop]
            part.copy_(part.to(HALF[format]))
    assert not torch.equal(problem.flat, held)
    assert torch.equal(stacked(problem, torch.float32, format=format)["logits"], before)
    assert not torch.equal(stacked(problem, torch.float32)["logits"], before.float())


def test_updates_far_below_an_ulp_of_the_format_add_up_in_the_master_weights() -> None:
    flat = torch.ones(1, 4)
    one = torch.ones(1)
    settings = optim.Settings(
        lr=one * 2.0**-16, beta1=one * 0, beta2=one, eps=one, weight_decay=one * 0, clip=one * torch.inf
    )
    assert (flat.bfloat16() - 2.0**-16 == 1).all()
    moments = optim.Moments.zeros(flat)
    for _ in range(1024):
        optim.step(optim.OptimizerKind.SGD, flat, torch.ones_like(flat), moments, settings, torch.zeros(4))
    assert flat.tolist() == [[1 - 1024 * 2.0**-16] * 4]


def test_float16_logits_overflow_where_bfloat16_ones_do_not(
    make_problem: Callable[..., Any], stacked: Callable[..., Any]
) -> None:
    problem = make_problem(runs=2)
    slot = layout(problem.config).slot("head.weight")
    problem.flat[1, slot.start : slot.stop] *= 60000
    half = stacked(problem, torch.float32, format=Format.FP16)["logits"]
    assert torch.isinf(half[1]).any()
    assert torch.isfinite(half[0]).all()
    assert torch.isfinite(stacked(problem, torch.float32, format=Format.BF16)["logits"]).all()

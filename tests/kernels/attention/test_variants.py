"""Faulty variants: the kernel fails as its reference twin does, and by far more than a right one may err."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from trainwreck.kernels.attention import VARIANTS, reduce

Fn = Callable[..., Any]
FAULTY = VARIANTS[1:]
SHAPE = {"n": 1, "b": 2, "h": 1, "t": 36, "width": 16}
ROUNDING = ("fp16_scores",)  # variants that round on purpose
# Scores with a deviation of 40,000 before the scale: past what float16 holds, and far past e**88.
EXTREME = {**SHAPE, "spread": 1e4}


def d_out(problem: Any) -> torch.Tensor:
    return torch.randn(problem.v.shape, generator=torch.Generator().manual_seed(1)).to(problem.v)


@pytest.mark.parametrize("variant", FAULTY)
def test_the_kernel_is_within_twice_the_error_of_its_twin(
    variant: str,
    dtype: torch.dtype,
    device: str,
    make_problem: Fn,
    attended: Fn,
    gradients: Fn,
    magnitudes: Fn,
    assert_within_budget: Fn,
) -> None:
    problem = make_problem(dtype=dtype, rate=0.1, device=device, **SHAPE)
    wide = problem.to(torch.float64)
    # What rounds has no float64 version: there its error is that of right attention.
    called = "reference" if variant in ROUNDING else variant
    exact = gradients(partial(attended, variant=called, impl="reference"), wide, d_out(problem))
    twin = gradients(partial(attended, variant=variant, impl="reference"), problem, d_out(problem))
    got = gradients(partial(attended, variant=variant, impl="triton"), problem, d_out(problem))
    slack = magnitudes(problem, d_out(problem))
    if dtype != torch.float32:  # 1 ulp of the inputs' format; see test_triton.compare for why
        slack = {name: x * torch.finfo(dtype).eps / torch.finfo(torch.float32).eps / 4 for name, x in slack.items()}
    assert_within_budget(got, twin, exact, torch.float32, slack)
    if variant in ROUNDING and dtype == torch.float32:  # and it is the same error, but for what a hair tips
        for name in ("out", "q", "k"):
            assert (got[name] - twin[name]).norm() <= 0.1 * (twin[name] - exact[name]).norm()


@pytest.mark.parametrize("variant", FAULTY)
def test_the_kernel_measures_what_its_twin_measures(variant: str, device: str, make_problem: Fn, attended: Fn) -> None:
    problem = make_problem(device=device, **SHAPE)
    got, right = (reduce([attended(problem, variant=variant, impl=impl)[1]]) for impl in ("triton", "reference"))
    for name, value in right.items():
        torch.testing.assert_close(got[name], value, msg=name)


# Times the error budget of the right kernel, in float32: least error of output and gradients together.
MARGINS = {"fp16_scores": 100}


def excess(got: dict[str, torch.Tensor], own: dict[str, torch.Tensor], exact: dict[str, torch.Tensor]) -> float:
    """By what factor the worst of output and gradients misses the budget of a right kernel; inf for NaN."""
    factors = []
    for name, right in exact.items():
        budget = max(2 * (own[name] - right).norm().item(), 4 * torch.finfo(torch.float32).eps * right.norm().item())
        factors.append((got[name].double() - right).norm().item() / budget)
    return math.inf if any(math.isnan(factor) for factor in factors) else max(factors)


@pytest.fixture
def excess_of(attended: Fn, gradients: Fn) -> Fn:
    def measured(problem: Any, variant: str) -> float:
        reference = partial(attended, impl="reference")
        exact, own = (gradients(reference, p, d_out(problem)) for p in (problem.to(torch.float64), problem))
        got = gradients(partial(attended, variant=variant, impl="triton"), problem, d_out(problem))
        return excess(got, own, exact)

    return measured


@pytest.mark.parametrize("variant", MARGINS)
def test_a_faulty_kernel_misses_the_right_ones_budget_by_its_margin(
    variant: str, device: str, make_problem: Fn, excess_of: Fn
) -> None:
    problem = make_problem(device=device, **SHAPE)
    assert excess_of(problem, "reference") <= 1
    assert excess_of(problem, variant) >= MARGINS[variant]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("variant", ["fp16_scores", "softmax_unshifted"])
def test_what_overflows_is_nan_where_the_right_kernel_is_right(
    variant: str, dtype: torch.dtype, device: str, make_problem: Fn, attended: Fn, gradients: Fn
) -> None:
    problem = make_problem(dtype=dtype, device=device, **EXTREME)
    right = gradients(partial(attended, impl="triton"), problem, d_out(problem))
    assert all(torch.isfinite(x).all() for x in right.values())
    got, twin = (
        gradients(partial(attended, variant=variant, impl=impl), problem, d_out(problem))
        for impl in ("triton", "reference")
    )
    for name, x in twin.items():
        assert torch.isnan(x).any()
        assert torch.equal(torch.isnan(got[name]), torch.isnan(x)), name


def test_every_variant_has_a_margin_or_overflows() -> None:
    assert {*MARGINS, "softmax_unshifted"} == set(FAULTY)

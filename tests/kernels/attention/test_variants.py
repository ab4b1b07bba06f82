"""Faulty variants: the kernel fails as its reference twin does, and by far more than a right one may err."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from trainwreck.kernels.attention import VARIANTS, reduce
from trainwreck.kernels.attention.variants.biased_rounding import cut

Fn = Callable[..., Any]
FAULTY = VARIANTS[1:]
SHAPE = {"n": 1, "b": 2, "h": 1, "t": 36, "width": 16}
# Variants that round on purpose, and whether they leave out the scale.
ROUNDING = {"fp16_scores": False, "fp16_scores_unscaled": True, "biased_rounding": False}
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
    called = variant
    if variant in ROUNDING:  # it has no float64 version: there its error is that of right attention
        called = "reference"
        if ROUNDING[variant]:
            wide.scale = torch.ones_like(wide.scale)
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
MARGINS = {
    "fp16_scores": 100,
    "fp16_scores_unscaled": 1e4,
    "biased_rounding": 1000,
    "mask_missing": 1e5,
    "mask_off_by_one": 1e5,
    "mask_zeroed": 1e5,
    "documents_ignored": 1e5,
}


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
@pytest.mark.parametrize("variant", ["fp16_scores", "fp16_scores_unscaled", "softmax_unshifted"])
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


def test_rounding_is_biased_towards_zero(device: str, make_problem: Fn, attended: Fn) -> None:
    """Every output that errs is too small; a right kernel's errors are of either sign."""
    problem = make_problem(device=device, **SHAPE)
    with torch.no_grad():
        problem.v.abs_().neg_()  # values of one sign, as where the paper met it
    exact = attended(problem.to(torch.float64), impl="reference")[0]
    for impl in ("triton", "reference"):
        error = attended(problem, variant="biased_rounding", impl=impl)[0] - exact
        assert (error >= -1e-6 * exact.abs()).all()
        assert (error > 1e-3 * exact.abs()).float().mean() > 0.2
        fair = attended(problem, impl=impl)[0] - exact
        assert 0.2 < (fair > 0).float().mean() < 0.8


def test_a_cut_number_has_its_upper_bytes_and_no_more() -> None:
    x = torch.tensor([1.0, 1.0 + 2**-7, 1.0 + 2**-7 - 2**-20, -3.1415927, 0.0, torch.inf, torch.nan])
    down = torch.tensor([1.0, 1.0 + 2**-7, 1.0, -3.140625, 0.0, torch.inf, torch.nan])
    torch.testing.assert_close(cut(x), down, rtol=0, atol=0, equal_nan=True)
    assert cut(x.double()).dtype == torch.float64

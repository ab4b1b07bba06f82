"""Output and gradients of the reference against a float64 loop and plain autograd."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

SHAPES = [(1, 1, 1, 1, 1), (2, 2, 2, 7, 6), (1, 2, 1, 63, 5), (2, 1, 1, 33, 100), (3, 1, 2, 16, 16)]
HALF = (torch.float16, torch.bfloat16)


@pytest.fixture
def ours(attended: Callable[..., Any]) -> Callable[..., Any]:
    return partial(attended, stats=False, impl="reference")


@pytest.mark.parametrize("shape", SHAPES)
def test_plain_attention_in_float64_is_the_loop_over_queries(
    shape: tuple[int, ...], make_problem: Callable[..., Any], looped: Callable[..., Any], plain: Callable[..., Any]
) -> None:
    n, b, h, t, width = shape
    problem = make_problem(n=n, b=b, h=h, t=t, width=width, dtype=torch.float64, rate=0.3)
    right = looped(problem)[0]
    error = (plain(problem)[0] - right).norm()
    assert error <= 4 * t * torch.finfo(torch.float64).eps * right.norm()


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("spread", [1.0, 30.0])
@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
@pytest.mark.parametrize("shape", SHAPES)
def test_output_and_gradients_are_within_twice_the_error_of_plain_attention(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    spread: float,
    rate: float,
    ours: Callable[..., Any],
    make_problem: Callable[..., Any],
    plain: Callable[..., Any],
    gradients: Callable[..., Any],
    assert_within_budget: Callable[..., None],
) -> None:
    n, b, h, t, width = shape
    results = []
    for seed in range(8):  # together: the error of a few numbers is itself a matter of chance
        problem = make_problem(n=n, b=b, h=h, t=t, width=width, dtype=dtype, spread=spread, rate=rate, seed=seed)
        d_out = torch.randn(problem.v.shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
        pairs = ((ours, problem), (plain, problem), (plain, problem.to(torch.float64)))
        results.append([gradients(fn, given, d_out) for fn, given in pairs])
    got, own, exact = ({k: torch.stack([r[k] for r in part]) for k in part[0]} for part in zip(*results, strict=True))
    assert all(x.dtype == dtype for x in got.values())
    assert_within_budget(got, own, exact, dtype)


def test_gradients_in_float64_are_those_of_finite_differences(
    ours: Callable[..., Any], make_problem: Callable[..., Any]
) -> None:
    problem = make_problem(n=2, b=1, h=2, t=4, width=3, dtype=torch.float64, rate=0.3)

    def out(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return ours(replace(problem, q=q, k=k, v=v))[0]

    assert torch.autograd.gradcheck(out, (problem.q, problem.k, problem.v))


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_runs_have_the_bits_that_they_have_alone_beside_any_neighbour(
    dtype: torch.dtype, ours: Callable[..., Any], make_problem: Callable[..., Any], gradients: Callable[..., Any]
) -> None:
    problem = make_problem(n=4, t=32, width=16, dtype=dtype, rate=0.2)
    with torch.no_grad():
        problem.q[1], problem.v[2] = torch.nan, torch.inf
    d_out = torch.randn(problem.v.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    bundle = gradients(ours, problem, d_out)
    for i in (0, 3):
        for name, value in gradients(ours, problem.run(i), d_out[i : i + 1]).items():
            assert torch.isfinite(value).all()
            assert torch.equal(bundle[name][i], value[0]), name
    assert torch.isnan(bundle["out"][1]).all()


def test_arguments_are_left_as_they_were(
    ours: Callable[..., Any], make_problem: Callable[..., Any], gradients: Callable[..., Any]
) -> None:
    problem = make_problem(rate=0.2)
    held = [x.detach().clone() for x in (problem.q, problem.k, problem.v, problem.scale, problem.dropout.rate_N)]
    gradients(ours, problem, torch.ones_like(problem.v))
    now = (problem.q, problem.k, problem.v, problem.scale, problem.dropout.rate_N)
    assert all(torch.equal(a, b) for a, b in zip(held, now, strict=True))

"""Rows with nothing to see, numbers that are none, and runs that must not notice."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from trainwreck.kernels.attention import Mask, attention

Fn = Callable[..., Any]
# NumPy, which carries out the interpreter, warns of what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize("t", [1, 5, 16, 40])
def test_a_query_without_keys_is_uniform_and_says_so(t: int, device: str) -> None:
    q, k, v = torch.randn(3, 1, 2, 1, t, 16, generator=torch.Generator().manual_seed(0)).to(device)
    mask = Mask(allowed_NTS=torch.zeros(1, t, t, dtype=torch.bool, device=device))
    out, stats = attention(q, k, v, mask=mask, scale_N=torch.ones(1, device=device), impl="triton")
    limit = t * torch.finfo(torch.float32).eps  # a mean of t numbers
    torch.testing.assert_close(out, v.mean(-2, keepdim=True).expand_as(v), rtol=limit, atol=limit)
    assert (stats.entropy - torch.tensor(float(t)).log()).abs().max() <= 4 * limit


@pytest.mark.parametrize("shift", [-1, -3])
def test_rows_without_keys_have_the_gradients_of_the_reference(
    shift: int, device: str, make_problem: Fn, attended: Fn, gradients: Fn, assert_within_budget: Fn, magnitudes: Fn
) -> None:
    table = torch.ones(1, 24, 24, dtype=torch.bool).tril(shift)
    problem = make_problem(t=24, width=16, device=device, mask={"allowed_NTS": table, "leaky": True})
    assert not problem.allowed.any(-1).all()
    d_out = torch.randn(problem.v.shape, generator=torch.Generator().manual_seed(1)).to(device)
    reference = partial(attended, impl="reference")
    exact, own = (gradients(reference, p, d_out) for p in (problem.to(torch.float64), problem))
    got = gradients(partial(attended, impl="triton"), problem, d_out)
    assert_within_budget(got, own, exact, torch.float32, magnitudes(problem, d_out))


def test_a_row_of_padding_looks_at_padding_alone(device: str) -> None:
    q, k, v = torch.randn(3, 1, 1, 1, 20, 16, generator=torch.Generator().manual_seed(0)).to(device)
    ids = torch.where(torch.arange(20) < 12, 3, -1).view(1, 1, 20).to(device)
    out = attention(q, k, v, mask=Mask(ids), scale_N=torch.ones(1, device=device), impl="triton")[0]
    torch.testing.assert_close(out[..., 12, :], v[..., 12, :])
    alone = (x[..., 12:, :] for x in (q, k, v))
    rest = attention(*alone, mask=Mask(), scale_N=torch.ones(1, device=device), impl="triton")[0]
    torch.testing.assert_close(out[..., 12:, :], rest)


def test_ids_need_no_order(
    device: str, make_problem: Fn, attended: Fn, gradients: Fn, assert_within_budget: Fn, magnitudes: Fn
) -> None:
    ids = torch.randint(-1, 3, (2, 2, 40), generator=torch.Generator().manual_seed(3))
    problem = make_problem(t=40, width=16, device=device, mask={"documents_NBT": ids})
    d_out = torch.ones_like(problem.v)
    reference = partial(attended, impl="reference")
    exact, own = (gradients(reference, p, d_out) for p in (problem.to(torch.float64), problem))
    got = gradients(partial(attended, impl="triton"), problem, d_out)
    assert_within_budget(got, own, exact, torch.float32, magnitudes(problem, d_out))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("leaky", [False, True])
def test_a_sick_run_leaves_its_neighbours_bit_for_bit(
    leaky: bool, value: float, device: str, make_problem: Fn, attended: Fn, gradients: Fn
) -> None:
    problem = make_problem(n=3, b=1, h=1, t=20, width=16, device=device, mask={"leaky": leaky})
    d_out = torch.ones_like(problem.v)
    fused = partial(attended, impl="triton")
    calm = gradients(fused, problem, d_out)
    with torch.no_grad():
        for x in (problem.q, problem.k, problem.v):
            x[1] = value
    sick = gradients(fused, problem, d_out)
    assert all(torch.equal(sick[name][[0, 2]], calm[name][[0, 2]]) for name in calm)
    assert not any(torch.isfinite(sick[name][1]).all() for name in calm)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_a_query_that_is_no_number_spoils_its_own_row_as_in_the_reference(
    value: float, device: str, make_problem: Fn, attended: Fn
) -> None:
    problem = make_problem(n=1, b=1, h=1, t=40, width=16, device=device)
    with torch.no_grad():
        problem.q[..., 7, :] = value
    got, right = (attended(problem, impl=impl)[0].detach() for impl in ("triton", "reference"))
    assert torch.equal(torch.isnan(got), torch.isnan(right))
    assert torch.isnan(got[..., 7, :]).all()


def test_a_key_of_minus_infinity_is_not_looked_at(device: str) -> None:
    """Its scores are -inf: no weight, and no -inf - -inf, where it is the first key of a row or all of its tile."""
    q, k, v = torch.randn(3, 1, 1, 1, 80, 16, generator=torch.Generator().manual_seed(0)).to(device)
    q[..., 0], k[..., 0] = 1.0, 0.0
    k[..., :64, 0] = -torch.inf
    scale = torch.ones(1, device=device)
    out, right = (
        attention(q, k, v, mask=Mask(), scale_N=scale, impl=i)[0][..., 64:, :] for i in ("triton", "reference")
    )
    assert torch.isfinite(out).all()
    torch.testing.assert_close(out, right)

"""Norms, GELU and what is seen of the stream, in C++, against float64."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from trainwreck.kernels.selection import CPP_DTYPES
from trainwreck.kernels.units import describe, gelu, norm

pytestmark = pytest.mark.usefixtures("compiler")

SHAPES = [(1, 1, 1), (2, 3, 16), (3, 5, 33), (2, 40, 64), (1, 7, 100)]


def drawn(shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", CPP_DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gelu_its_slope_and_the_largest_of_each_unit(
    shape: tuple[int, ...], dtype: torch.dtype, poisoned: Callable
) -> None:
    x, d = (3 * drawn(shape)).to(dtype), drawn(shape, 1).to(dtype)
    leaf, wide = x.clone().requires_grad_(), x.double().requires_grad_()
    with poisoned():
        y, tops = gelu(leaf, "cpp")
        (slope,) = torch.autograd.grad(y, leaf, d)
    exact = F.gelu(wide)
    (right,) = torch.autograd.grad(exact, wide, d.double())
    assert y.dtype == slope.dtype == dtype
    close = {"rtol": torch.finfo(dtype).eps, "atol": 4e-7}
    torch.testing.assert_close(y.double(), exact, **close)
    torch.testing.assert_close(slope.double(), right, **close)
    torch.testing.assert_close(tops[:, 0].double(), exact.amax(1), **close)


def test_a_unit_that_is_nan_for_one_token_is_not_dead() -> None:
    x = -torch.ones(1, 4, 3)
    x[0, 1, 2], x[0, 2, 0] = torch.nan, torch.inf
    y, tops = gelu(x, "cpp")
    assert y.isnan().sum() == 1
    assert tops[0, 0, 2].isnan()
    assert tops[0, 0, 0] == torch.inf
    assert tops[0, 0, 1] < 0


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_norms_and_their_gradient(shape: tuple[int, ...], centred: bool, poisoned: Callable) -> None:
    x, d = 2 + 3 * drawn(shape), drawn(shape, 1)
    found = {}
    for name, values, impl in (("cpp", x, "cpp"), ("own", x, None), ("exact", x.double(), None)):
        leaf = values.clone().requires_grad_()
        with poisoned():
            y = norm(leaf, 1e-5, centred=centred, impl=impl)
        (grad,) = torch.autograd.grad(y, leaf, d.to(values))
        found[name] = {"y": y.detach(), "grad": grad}
    for part, right in found["exact"].items():
        error, own = ((found[name][part].double() - right).norm() for name in ("cpp", "own"))
        size = d.norm() if shape[-1] > 1 else 1000.0  # of one feature alone eps is all that is left
        assert error <= 2 * own + 4 * torch.finfo(torch.float32).eps * size


@pytest.mark.parametrize("shape", [(1, 1), (2, 16), (3, 1000)], ids=str)
def test_what_is_seen_of_the_stream(shape: tuple[int, ...], poisoned: Callable) -> None:
    x = drawn(shape)
    with poisoned():
        got = describe(x, "cpp")
    for value, right in zip(got, describe(x.double()), strict=True):
        torch.testing.assert_close(value.double(), right, rtol=1e-5, atol=1e-6)
    x[0, 0] = torch.nan
    assert all(bool(value[0].isnan()) and not bool(value[1:].isnan().any()) for value in describe(x, "cpp"))

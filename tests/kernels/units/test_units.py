"""Norms, GELU and what is seen of the stream, in C++ and Triton, against float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from trainwreck.kernels.units import affine, describe, gelu, gelu_mlp, norm

SHAPES = [(1, 1, 1), (2, 3, 16), (3, 5, 33), (2, 40, 64), (1, 7, 100)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, (2, 300, 200)], ids=str)
def test_gelu_its_slope_and_the_largest_of_each_unit(
    shape: tuple[int, ...], dtype: torch.dtype, kernel: Any, poisoned: Callable
) -> None:
    x, d = (3 * kernel.drawn(shape)).to(dtype), kernel.drawn(shape, 1).to(dtype)
    leaf, wide = x.clone().requires_grad_(), x.double().requires_grad_()
    with poisoned():
        y, tops = gelu(leaf, kernel.impl)
        (slope,) = torch.autograd.grad(y, leaf, d)
    exact = F.gelu(wide)
    (right,) = torch.autograd.grad(exact, wide, d.double())
    assert y.dtype == slope.dtype == dtype
    close = {"rtol": torch.finfo(dtype).eps, "atol": 4e-7}
    if kernel.impl == "cpp" and dtype == torch.float16:  # PyTorch's own, off by 7e-7 on a processor with avx512_fp16
        close["atol"] = 1e-6
    torch.testing.assert_close(y.double(), exact, **close)
    close["atol"] *= max(1.0, d.abs().max().item())
    torch.testing.assert_close(slope.double(), right, **close)
    torch.testing.assert_close(tops.amax(1).double(), exact.amax(1), **close)


def test_a_unit_that_is_nan_for_one_token_is_not_dead(kernel: Any) -> None:
    x = -torch.ones(1, 4, 3, device=kernel.device)
    x[0, 1, 2], x[0, 2, 0] = torch.nan, torch.inf
    y, tops = gelu(x, kernel.impl)
    assert y.isnan().sum() == 1
    assert tops[0, 0, 2].isnan()
    assert tops[0, 0, 0] == torch.inf
    assert tops[0, 0, 1] < 0


def mlp_inputs(drawn: Callable, shape: tuple[int, ...], biased: str) -> list[torch.Tensor | None]:
    """x [N, M, I], and weight and bias of both products; biased: which have one."""
    n, m, i, f, o = shape
    sizes = ((n, m, i), (n, i, f), (n, f), (n, f, o), (n, o))
    given: list[torch.Tensor | None] = [drawn(size, seed) for seed, size in enumerate(sizes)]
    return [
        *given[:2],
        given[2] if biased in ("both", "first") else None,
        given[3],
        given[4] if biased in ("both", "last") else None,
    ]


def mlp_results(given: list[torch.Tensor | None], dtype: torch.dtype, impl: str, d: torch.Tensor) -> list[torch.Tensor]:
    """Output, the largest of each unit, and the gradients of everything given."""
    leaves = [None if part is None else part.to(dtype).requires_grad_() for part in given]
    x, first, first_bias, last, last_bias = leaves
    assert x is not None
    out, tops = gelu_mlp(x, (first, first_bias), (last, last_bias), impl)
    grads = torch.autograd.grad(out, [leaf for leaf in leaves if leaf is not None], d.to(dtype))
    return [out.detach(), tops.detach().amax(1), *grads]


@pytest.mark.parametrize("biased", ["both", "first", "last", "neither"])
@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 1), (2, 3, 16, 33, 5), (3, 300, 24, 96, 24)], ids=str)
def test_an_mlp_and_its_gradients(shape: tuple[int, ...], biased: str, kernel: Any, poisoned: Callable) -> None:
    given = mlp_inputs(kernel.drawn, shape, biased)
    d = kernel.drawn((*shape[:2], shape[4]), 9)
    with poisoned():
        found = mlp_results(given, torch.float32, kernel.impl, d)
    own = mlp_results(given, torch.float32, "reference", d)
    exact = mlp_results(given, torch.float64, "reference", d)
    for got, plain, right in zip(found, own, exact, strict=True):
        size = right.norm() + 1e-3
        allowed = 2 * (plain.double() - right).norm() + 4 * torch.finfo(torch.float32).eps * size
        assert (got.double() - right).norm() <= allowed


@pytest.mark.usefixtures("compiler")
def test_an_mlp_has_the_same_bits_however_many_runs_are_computed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from trainwreck.kernels.units import cpp

    def drawn(shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed))

    given = mlp_inputs(drawn, (5, 40, 24, 96, 24), "both")
    d = drawn((5, 40, 24), 9)
    parts = []
    for units in (1, 2 * 40 * 96, 2**18):
        monkeypatch.setattr(cpp, "AT_ONCE", units)
        parts.append(mlp_results(given, torch.float32, "cpp", d))
    assert all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(*parts, strict=True))


@pytest.mark.parametrize("scale", ["none", "gain", "gain and shift"])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("shape", [*SHAPES, (2, 300, 24)], ids=str)
def test_norms_and_their_gradients(
    shape: tuple[int, ...], centred: bool, scale: str, kernel: Any, poisoned: Callable
) -> None:
    n, _, width = shape
    drawn = kernel.drawn
    given = [2 + 3 * drawn(shape), drawn((n, width), 2), drawn((n, width), 3)]
    given = given[: {"none": 1, "gain": 2, "gain and shift": 3}[scale]]
    d = drawn(shape, 1)
    found = {}
    for name, dtype, impl in (
        ("kernel", torch.float32, kernel.impl),
        ("own", torch.float32, "reference"),
        ("exact", torch.float64, "reference"),
    ):
        x, *parts = leaves = [value.to(dtype).requires_grad_() for value in given]
        both = (*parts, None)[:2] if parts else None
        with poisoned():
            y = norm(x, 1e-5, centred=centred, scale=both, impl=impl)
            found[name] = [y.detach(), *torch.autograd.grad(y, leaves, d.to(dtype))]
    for got, own, right in zip(found["kernel"], found["own"], found["exact"], strict=True):
        size = d.norm() if width > 1 else 1000.0  # of one feature alone eps is all that is left
        assert (got.double() - right).norm() <= 2 * (own.double() - right).norm() + 4 * torch.finfo(
            torch.float32
        ).eps * size


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter's, by NumPy
@pytest.mark.parametrize("centred", [True, False])
def test_a_variance_past_float32_is_what_pytorch_makes_of_it_on_a_cpu(centred: bool, kernel: Any) -> None:
    x = kernel.drawn((1, 3, 48))
    x[0, 1] *= 1e30
    x[0, 2, 4] = torch.inf
    got = norm(x, 1e-5, centred=centred, impl=kernel.impl).cpu()
    right = norm(x.cpu(), 1e-5, centred=centred, impl="reference")
    torch.testing.assert_close(got, right, equal_nan=True)
    assert got[0, 1].isnan().all() == centred


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("shifted", [True, False])
@pytest.mark.parametrize("shape", [(2, 300, 24), (3, 5, 64)], ids=str)
def test_a_norm_in_two_parts_has_the_bits_of_the_whole_in_cpp(shape: tuple[int, ...], shifted: bool) -> None:
    """Beside a run whose norm is missing the parts are apart."""
    n, _, width = shape
    random = torch.Generator().manual_seed(0)
    given = [torch.randn(size, generator=random) for size in (shape, (n, width), (n, width))][: 2 + shifted]
    d = torch.randn(shape, generator=random)
    results = []
    for apart in (True, False):
        x, *parts = leaves = [value.clone().requires_grad_() for value in given]
        scale = (*parts, None)[:2]
        if apart:
            out = affine(norm(x, 1e-5, centred=True, impl="cpp"), scale, "cpp")
        else:
            out = norm(x, 1e-5, centred=True, scale=scale, impl="cpp")
        results.append([out, *torch.autograd.grad(out, leaves, d)])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("shape", [(1, 1), (2, 16), (3, 1000), (2, 20_000)], ids=str)
def test_what_is_seen_of_the_stream(shape: tuple[int, ...], kernel: Any, poisoned: Callable) -> None:
    x = kernel.drawn(shape)
    with poisoned():
        got = describe(x, kernel.impl)
    for value, right in zip(got, describe(x.double()), strict=True):
        torch.testing.assert_close(value.double(), right, rtol=1e-5, atol=1e-6)
    x[0, 0] = torch.nan
    assert all(bool(value[0].isnan()) and not bool(value[1:].isnan().any()) for value in describe(x, kernel.impl))


def test_a_run_s_bits_are_its_own(kernel: Any) -> None:
    """Alone, beside others and again."""
    impl = kernel.impl
    x, gain = kernel.drawn((3, 300, 24)), kernel.drawn((3, 24), 1)
    parts = [slice(None), slice(1, 2), slice(None)]
    found = []
    for part in parts:
        leaf, scale = x[part].clone().requires_grad_(), gain[part].clone().requires_grad_()
        y = gelu(norm(leaf, 1e-5, centred=True, scale=(scale, None), impl=impl), impl)[0]
        grads = torch.autograd.grad(y.square().sum(), (leaf, scale))
        found.append([y, *grads, torch.stack(describe(x[part].flatten(1), impl), 1)])
    for whole, alone, again in zip(*found, strict=True):
        assert torch.equal(whole, again)
        assert torch.equal(whole[1:2], alone)

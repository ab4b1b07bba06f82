"""The C++ split and rotation against float64, in both types that it has."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trainwreck.kernels.rotary import split_and_rotate
from trainwreck.kernels.selection import CPP_DTYPES
from trainwreck.models.rotary import rotary_table

pytestmark = pytest.mark.usefixtures("compiler")

# N, B, T, H, K around a vector of 16 features.
SHAPES = [(1, 1, 1, 1, 2), (2, 3, 7, 2, 6), (3, 2, 33, 5, 16), (1, 2, 9, 4, 64), (1, 1, 17, 3, 18)]


def draws(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    n, b, t, h, k = shape
    qkv = torch.randn(n, b, t, 3 * h * k, generator=torch.Generator().manual_seed(0)).to(dtype)
    tables = (torch.stack([rotary_table(t, k, base + i) for i in range(n)]) for base in (100.0, 50.0))
    return qkv, *tables


def results(qkv: Tensor, q: Tensor, k: Tensor, heads: int, impl: str) -> dict[str, Tensor]:
    leaf = qkv.detach().requires_grad_()
    parts = split_and_rotate(leaf, q, k, heads, impl=impl)
    random = torch.Generator().manual_seed(1)
    grads = [torch.randn(x.shape, generator=random).to(x) for x in parts]
    (d_qkv,) = torch.autograd.grad(parts, leaf, grads)
    found = dict(zip(("q", "k", "v", "d_qkv"), (*parts, d_qkv), strict=True))
    assert all(x.dtype == qkv.dtype for x in found.values())
    return {name: x.detach() for name, x in found.items()}


@pytest.mark.parametrize("dtype", CPP_DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_heads_and_gradient_are_within_twice_the_error_of_the_references(
    shape: tuple[int, ...], dtype: torch.dtype, poisoned: Callable, within_budget: Callable
) -> None:
    qkv, q, k = draws(shape, dtype)
    with poisoned():
        got = results(qkv, q, k, shape[3], "cpp")
    own = results(qkv, q, k, shape[3], "reference")
    wide = (x.to(torch.complex128) for x in (q, k))
    within_budget(got, own, results(qkv.double(), *wide, shape[3], "reference"))
    assert torch.equal(got["v"], own["v"])


def test_tables_may_be_shared_and_conjugated_and_inputs_and_gradients_views() -> None:
    n, b, t, h, k = (3, 2, 9, 2, 6)
    qkv, q, _ = draws((n, b, t, h, k), torch.float32)
    shared = q[:1].expand(n, -1, -1)
    view = torch.cat((qkv, qkv), -1)[..., : 3 * h * k]
    for got, right in zip(
        split_and_rotate(view, shared, shared.conj(), h, impl="cpp"),
        split_and_rotate(qkv, shared.clone(), shared.conj().resolve_conj(), h, impl="cpp"),
        strict=True,
    ):
        assert torch.equal(got, right)
    leaf = qkv.requires_grad_()
    parts = split_and_rotate(leaf, shared, shared, h, impl="cpp")
    spread = [torch.randn(n, b, t, h, k).transpose(2, 3) for _ in parts]
    (from_views,) = torch.autograd.grad(parts, leaf, spread, retain_graph=True)
    (from_copies,) = torch.autograd.grad(parts, leaf, [x.contiguous() for x in spread], retain_graph=True)
    assert torch.equal(from_views, from_copies)
    (of_keys,) = torch.autograd.grad(parts[1].sum(), leaf)
    used = of_keys.unflatten(-1, (3, h * k)).ne(0).flatten(0, 2).any(-1).any(0)
    assert used.tolist() == [False, True, False]

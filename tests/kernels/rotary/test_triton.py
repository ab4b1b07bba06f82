"""The Triton split and rotation against float64: q, k, v and the gradient, at odd sizes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trainwreck.kernels.rotary import split_and_rotate
from trainwreck.models.rotary import rotary_table

pytest.importorskip("triton")

# N, B, T, H, K: pairs alone, more heads than a program takes, positions over a tile, odd everything.
SHAPES = [
    (1, 1, 1, 1, 2),
    (2, 3, 7, 2, 6),
    (3, 2, 33, 5, 10),
    (1, 2, 63, 4, 64),
    (1, 1, 111, 1, 100),
    (1, 1, 17, 9, 128),
]


def draws(shape: tuple[int, ...], place: Any, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Packed numbers, and tables that differ by run and between queries and keys."""
    n, b, t, h, k = shape
    qkv = torch.randn(n, b, t, 3 * h * k, generator=torch.Generator().manual_seed(seed))
    q = torch.stack([rotary_table(t, k, 100.0 + i) for i in range(n)])
    table_k = torch.stack([rotary_table(t, k, 50.0, offset=i, stretch=1.5) for i in range(n)])
    return qkv.to(place.dtype).to(place.device), q.to(place.device), table_k.to(place.device)


def results(qkv: Tensor, q: Tensor, k: Tensor, heads: int, impl: str) -> dict[str, Tensor]:
    leaf = qkv.detach().requires_grad_()
    parts = split_and_rotate(leaf, q, k, heads, impl=impl)
    random = torch.Generator().manual_seed(1)
    grads = [torch.randn(x.shape, generator=random).to(x) for x in parts]
    (d_qkv,) = torch.autograd.grad(parts, leaf, grads)
    found = dict(zip(("q", "k", "v", "d_qkv"), (*parts, d_qkv), strict=True))
    assert all(x.dtype == qkv.dtype and x.is_contiguous() for x in found.values())
    return {name: x.detach().cpu() for name, x in found.items()}


def compare(shape: tuple[int, ...], place: Any, seed: int, poisoned: Callable, within_budget: Callable) -> None:
    qkv, q, k = draws(shape, place, seed)
    before = qkv.clone()
    with poisoned():
        got = results(qkv, q, k, shape[3], "triton")
    own = results(qkv, q, k, shape[3], "reference")
    wide = (x.to(torch.complex128) for x in (q, k))
    within_budget(got, own, results(qkv.double(), *wide, shape[3], "reference"))
    assert torch.equal(got["v"], own["v"])
    assert torch.equal(qkv, before)


@pytest.mark.parametrize("shape", SHAPES)
def test_heads_and_gradient_are_within_twice_the_error_of_the_references(
    shape: tuple[int, ...], place: Any, poisoned: Callable, within_budget: Callable
) -> None:
    compare(shape, place, 0, poisoned, within_budget)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    st.tuples(*(st.integers(1, top) for top in (3, 3, 40, 6)), st.integers(1, 20).map(lambda half: 2 * half)),
    st.integers(0, 2**16),
)
def test_any_shape(place: Any, poisoned: Callable, within_budget: Callable, shape: tuple[int, ...], seed: int) -> None:
    compare(shape, place, seed, poisoned, within_budget)


def test_tables_may_be_shared_and_inputs_and_gradients_views(place: Any) -> None:
    n, b, t, h, k = shape = (3, 2, 9, 2, 6)
    qkv, q, _ = draws(shape, place)
    shared = q[:1].expand(n, -1, -1)
    view = torch.cat((qkv, qkv), -1)[..., : 3 * h * k]
    for got, right in zip(
        split_and_rotate(view, shared, shared.conj(), h, impl="triton"),
        split_and_rotate(qkv, shared.clone(), shared.conj().resolve_conj(), h, impl="triton"),
        strict=True,
    ):
        assert torch.equal(got, right)
    leaf = qkv.requires_grad_()
    parts = split_and_rotate(leaf, shared, shared, h, impl="triton")
    spread = [torch.randn(n, b, t, h, k, device=qkv.device).to(qkv).transpose(2, 3) for _ in parts]
    (from_views,) = torch.autograd.grad(parts, leaf, spread, retain_graph=True)
    (from_copies,) = torch.autograd.grad(parts, leaf, [x.contiguous() for x in spread])
    assert torch.equal(from_views, from_copies)


def test_a_part_that_is_not_used_has_no_gradient(place: Any) -> None:
    qkv, q, k = draws((1, 2, 5, 2, 4), place)
    leaf = qkv.requires_grad_()
    parts = split_and_rotate(leaf, q, k, 2, impl="triton")
    (grad,) = torch.autograd.grad(parts[1].sum(), leaf)
    of_q, of_k, of_v = grad.unflatten(-1, (3, 8)).unbind(-2)
    assert not of_q.any()
    assert of_k.any()
    assert not of_v.any()


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # inf - inf, meant
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_runs_numbers_have_the_bits_that_they_have_alone_beside_any_neighbour(value: float, place: Any) -> None:
    qkv, q, k = draws((3, 2, 9, 3, 6), place)
    qkv[1] = value
    bundle = split_and_rotate(qkv, q, k, 3, impl="triton")
    for run in (0, 2):
        alone = split_and_rotate(qkv[run : run + 1], q[run : run + 1], k[run : run + 1], 3, impl="triton")
        assert all(torch.equal(a[0], b[run]) for a, b in zip(alone, bundle, strict=True))

"""The C++ passes over weights: statistics against float64 and with broken numbers, AdamW against PyTorch's formulas."""

from collections.abc import Callable

import pytest
import torch

from trainwreck.kernels.cpp import weights
from trainwreck.kernels.norms import segment_statistics

pytestmark = pytest.mark.usefixtures("compiler")

WIDTHS = [[1], [5, 1, 17], [64], [63, 65], [16, 128, 129, 3], [2000, 7, 2000, 1]]


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_statistics_are_within_twice_the_error_of_the_references(
    widths: list[int], runs: int, cut: Callable, looped: Callable, poisoned: Callable, within_budget: Callable
) -> None:
    flat = torch.randn(runs, sum(widths), generator=torch.Generator().manual_seed(0))
    flat[:, ::3] = 0.0
    with poisoned():
        got = segment_statistics(flat, cut(widths), largest=True, counts=True, impl="cpp")
    own = segment_statistics(flat, cut(widths), largest=True, counts=True, impl="reference")
    found, right = ({"norm": x.norm_NS, "largest": x.largest_NS} for x in (got, own))
    within_budget(found, right, looped(flat, cut(widths)))
    assert torch.equal(got.largest_NS, own.largest_NS)
    assert torch.equal(got.nonfinite_N, own.nonfinite_N.long())
    assert torch.equal(got.zeros_N, own.zeros_N.long())
    assert torch.equal(segment_statistics(flat, cut(widths), impl="cpp").norm_NS, got.norm_NS)


def test_what_is_not_finite_is_counted_and_named_in_its_segment_and_run(cut: Callable) -> None:
    flat, segments = torch.ones(3, 70), cut([30, 40])
    flat[1, 3], flat[1, 31], flat[1, 69] = torch.nan, torch.inf, -torch.inf
    got = segment_statistics(flat, segments, largest=True, counts=True, impl="cpp")
    assert got.nonfinite_N.tolist() == [0, 3, 0]
    assert got.largest_NS.isnan().tolist() == [[False, False], [True, False], [False, False]]
    assert got.largest_NS[1, 1] == torch.inf
    assert got.norm_NS.isfinite().tolist() == [[True, True], [False, False], [True, True]]
    for run in range(3):
        alone = segment_statistics(flat[run : run + 1], segments, largest=True, impl="cpp")
        assert torch.equal(alone.norm_NS[0].nan_to_num(7.0), got.norm_NS[run].nan_to_num(7.0))


@pytest.mark.parametrize("width", [1, 16, 37, 1000])
def test_both_halves_of_adamw_are_the_formulas(width: int) -> None:
    random = torch.Generator().manual_seed(0)
    first, grads, factor = torch.randn(3, 2, width, generator=random)
    second = torch.rand(2, width, generator=random)
    shares = torch.tensor([0.1, 0.5]), torch.tensor([0.01, 0.2])
    eps, rate = torch.tensor([1e-8, 1e-3]), torch.tensor([-0.1, -3.0])
    m = torch.lerp(first.double(), grads.double(), shares[0].double()[:, None])
    v = torch.lerp(second.double(), grads.double() ** 2, shares[1].double()[:, None])
    weights.average(first, second, grads, *shares)
    torch.testing.assert_close(first.double(), m, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(second.double(), v, rtol=1e-6, atol=1e-7)
    step = first / (second.sqrt() + eps[:, None])
    torch.testing.assert_close(weights.update(first, second, None, eps, rate), step * rate[:, None])
    shortened = weights.update(first, second, factor, eps, rate)
    torch.testing.assert_close(shortened, step * factor * rate[:, None])
    whole = weights.update(first, second, torch.ones_like(factor), eps, rate)
    assert torch.equal(whole, weights.update(first, second, None, eps, rate))  # a neighbour's factor changes no bit

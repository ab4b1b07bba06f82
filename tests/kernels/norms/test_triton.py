"""The Triton reduction against float64, at sizes around its chunks, and on broken numbers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trainwreck.kernels.norms import segment_statistics

pytest.importorskip("triton")

# A chunk is 8192 elements: less than one, exactly one, one and a bit; segments of a single element.
WIDTHS = [[1], [5, 1, 17], [8192], [8191, 8193], [16, 8192, 8192, 3], [20000, 7, 20000, 1]]


def draws(runs: int, width: int, place: Any, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(runs, width, generator=random).to(place.dtype).to(place.device)


def by_name(statistics: Any) -> dict[str, Tensor]:
    return {"norm": statistics.norm_NS.cpu(), "largest": statistics.largest_NS.cpu()}


def compare(flat: Tensor, segments: Any, looped: Callable, poisoned: Callable, within_budget: Callable) -> None:
    with poisoned():
        got = segment_statistics(flat, segments, largest=True, counts=True, impl="triton")
    own = segment_statistics(flat, segments, largest=True, counts=True, impl="reference")
    assert got.norm_NS.dtype == got.largest_NS.dtype == torch.float32
    within_budget(by_name(got), by_name(own), looped(flat.cpu(), segments))
    assert torch.equal(got.largest_NS, own.largest_NS)
    assert torch.equal(got.nonfinite_N, own.nonfinite_N)
    assert torch.equal(got.zeros_N, own.zeros_N)


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("widths", WIDTHS)
def test_statistics_are_within_twice_the_error_of_the_references(
    widths: list[int],
    runs: int,
    place: Any,
    cut: Callable,
    looped: Callable,
    poisoned: Callable,
    within_budget: Callable,
) -> None:
    compare(draws(runs, sum(widths), place), cut(widths), looped, poisoned, within_budget)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 3000), min_size=1, max_size=6), st.integers(1, 3), st.integers(0, 2**16))
def test_any_cut_of_any_buffer(
    place: Any, cut: Callable, looped: Callable, poisoned: Callable, within_budget: Callable,
    widths: list[int], runs: int, seed: int,
) -> None:  # fmt: skip
    compare(draws(runs, sum(widths), place, seed), cut(widths), looped, poisoned, within_budget)


def test_a_view_of_a_wider_buffer_is_read_where_it_lies(place: Any, cut: Callable) -> None:
    wide = draws(3, 500, place)
    for view in (wide[:, 7:307], wide.t()[:300, :3].t(), wide[::2, :300]):
        got = segment_statistics(view, cut([1, 299]), largest=True, impl="triton")
        copied = segment_statistics(view.clone(), cut([1, 299]), largest=True, impl="triton")
        assert torch.equal(got.norm_NS, copied.norm_NS)
        assert torch.equal(got.largest_NS[:, 1], view[:, 1:].abs().amax(1).float())


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("at", [0, 5, 6, 20000, 20012])
def test_a_broken_number_is_found_and_stays_its_segments(value: float, at: int, place: Any, cut: Callable) -> None:
    segments = cut([6, 19999, 8])
    flat = draws(3, 20013, place)
    calm = segment_statistics(flat, segments, largest=True, counts=True, impl="triton")
    flat[1, at] = value
    sick = segment_statistics(flat, segments, largest=True, counts=True, impl="triton")
    hit = torch.zeros(3, 3, dtype=torch.bool, device=flat.device)
    hit[1, next(i for i, (a, b) in enumerate(segments) if a <= at < b)] = True
    for before, after in zip(calm[:2], sick[:2], strict=True):
        assert torch.equal(before[~hit], after[~hit])
        assert bool(torch.isnan(after[hit]).all() if value != value else (after[hit] == torch.inf).all())
    assert sick.nonfinite_N.tolist() == [0, 1, 0]


@pytest.mark.parametrize("widths", WIDTHS)
def test_zeros_of_either_sign_are_counted_and_nothing_beside_the_buffer(
    widths: list[int], place: Any, cut: Callable
) -> None:
    flat = draws(3, sum(widths), place)
    flat[1, ::3], flat[2, -1], flat[0, :1] = 0.0, -0.0, torch.nan
    got = segment_statistics(flat, cut(widths), counts=True, impl="triton")
    assert got.zeros_N.tolist() == [0, len(flat[1, ::3]), 1]
    assert got.nonfinite_N.tolist() == [1, 0, 0]


def test_a_runs_numbers_have_the_bits_that_they_have_alone_and_again(place: Any, cut: Callable) -> None:
    flat, segments = draws(4, 20013, place), cut([6, 19999, 8])
    bundle = segment_statistics(flat, segments, largest=True, impl="triton")
    for run in range(4):
        alone = segment_statistics(flat[run : run + 1], segments, largest=True, impl="triton")
        assert torch.equal(alone.norm_NS[0], bundle.norm_NS[run])
        assert torch.equal(alone.largest_NS[0], bundle.largest_NS[run])


def test_subnormal_and_huge_numbers_have_the_right_maximum(place: Any) -> None:
    tiny, huge = torch.finfo(place.dtype).tiny, min(torch.finfo(place.dtype).max, 1e18)  # whose square is finite
    flat = torch.tensor([[0.0, -tiny, tiny / 4, huge]], dtype=place.dtype, device=place.device)
    got = segment_statistics(flat, ((0, 1), (1, 2), (2, 3), (3, 4)), largest=True, counts=True, impl="triton")
    assert torch.equal(got.largest_NS, flat.float().abs())
    assert got.nonfinite_N.tolist() == [0]

"""The reference against a loop, what it leaves out, and what is refused."""

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trainwreck.kernels.norms import reference, segment_statistics

FLAT = torch.zeros(2, 10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("widths", [[1], [1, 1], [7, 1, 250, 33]])
def test_norms_and_maxima_are_those_of_a_loop(
    widths: list[int], dtype: torch.dtype, cut: Callable, looped: Callable
) -> None:
    flat = torch.randn(3, sum(widths), generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    got, right = segment_statistics(flat, cut(widths), largest=True), looped(flat, cut(widths))
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert got.norm_NS.dtype == got.largest_NS.dtype == wide
    torch.testing.assert_close(got.norm_NS.double(), right["norm"], rtol=64 * torch.finfo(wide).eps, atol=0)
    assert torch.equal(got.largest_NS.double(), right["largest"])


def test_what_is_not_asked_for_is_not_there() -> None:
    bare = segment_statistics(FLAT, ((0, 10),))
    assert bare.largest_NS is None
    assert bare.nonfinite_N is None
    assert bare.zeros_N is None
    assert segment_statistics(FLAT, ((0, 10),), counts=True).nonfinite_N.tolist() == [0, 0]


def test_a_nan_is_its_own_runs_and_its_own_segments() -> None:
    flat = torch.randn(3, 10, generator=torch.Generator().manual_seed(0))
    calm = segment_statistics(flat, ((0, 4), (4, 10)), largest=True, counts=True)
    flat[1, 2], flat[1, 3], flat[2, 9] = torch.nan, torch.inf, -torch.inf
    sick = segment_statistics(flat, ((0, 4), (4, 10)), largest=True, counts=True)
    for before, after in zip(calm[:2], sick[:2], strict=True):
        assert torch.isnan(after).tolist() == [[False, False], [True, False], [False, False]]
        assert torch.isinf(after).tolist() == [[False, False], [False, False], [False, True]]
        assert torch.equal(before[torch.isfinite(after)], after[torch.isfinite(after)])
    assert sick.nonfinite_N.tolist() == [0, 2, 1]


BAD = [
    ((FLAT.long(), ((0, 10),)), "flat: dtype torch.int64 is not allowed; allowed: (torch.float16, "),
    ((FLAT[0], ((0, 10),)), "flat: shape (10,) is not allowed; allowed: [N, P]"),
    ((FLAT[:0], ((0, 10),)), "flat: shape (0, 10) is not allowed; allowed: [N, P], both 1 or more"),
    ((FLAT, ()), "segments: an end at 0 is not allowed; allowed: 10"),
    ((FLAT, ((0, 4), (4, 9))), "segments: an end at 9 is not allowed; allowed: 10"),
    ((FLAT, ((0, 4), (5, 10))), "segments: (5, 10) is not allowed; allowed: a range from 4 "),
    ((FLAT, ((0, 4), (4, 4), (4, 10))), "segments: (4, 4) is not allowed; allowed: a range from 4 "),
    ((FLAT, ((0, 4), (2, 10))), "segments: (2, 10) is not allowed; allowed: a range from 4 "),
    ((FLAT, ((-1, 10),)), "segments: (-1, 10) is not allowed; allowed: a range from 0 "),
]


@pytest.mark.parametrize("impl", [None, "reference", "triton"])
@pytest.mark.parametrize(("arguments", "line"), BAD)
def test_an_argument_that_does_not_fit_is_refused_in_one_line(arguments: tuple, line: str, impl: str | None) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(line)}[^\n]*$"):
        segment_statistics(*arguments, impl=impl)


def test_triton_is_never_replaced_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"^impl: 'triton' is not allowed for torch.float64; allowed: reference"):
        segment_statistics(FLAT.double(), ((0, 10),), impl="triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match=r"^impl: 'triton' is not allowed for a tensor on cpu; allowed: reference"):
        segment_statistics(FLAT, ((0, 10),), impl="triton")


def test_the_largest_finite_number_is_finite() -> None:
    flat = torch.zeros(2, 5)
    flat[0, :3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    flat[1, 0] = torch.finfo(torch.float32).max
    assert segment_statistics(flat, ((0, 5),), counts=True).nonfinite_N.tolist() == [3, 0]


def test_elements_of_finite_norms_are_not_counted_and_of_others_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[Tensor] = []
    monkeypatch.setattr(reference, "count_nonfinite", lambda flat: counts.append(flat) or flat.new_ones(len(flat)))
    flat = torch.randn(3, 10, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.float32, torch.float16, torch.float64):
        found = segment_statistics(flat.to(dtype), ((0, 4), (4, 10)), counts=True, impl="reference").nonfinite_N
        assert found.tolist() == [0, 0, 0]
        assert found.dtype == (flat - flat).to(torch.promote_types(dtype, torch.float32)).sum(1).dtype
    assert counts == []
    for bad in (torch.nan, torch.inf, torch.finfo(torch.float32).max):  # of the last, whose square is infinite
        flat[1, 8] = bad
        assert segment_statistics(flat, ((0, 4), (4, 10)), counts=True).nonfinite_N.tolist() == [1, 1, 1]
    assert len(counts) == 3


def test_fewer_passes_give_the_bits_of_the_definitions() -> None:
    draw = torch.Generator().manual_seed(0)
    flat = torch.randn(5, 3000, generator=draw) * torch.logspace(-40, 38, 3000)
    flat[0, 7], flat[1, 2000], flat[1, 9], flat[2, :1500], flat[3] = torch.nan, torch.inf, -torch.inf, 0.0, -0.0
    segments = ((0, 1500), (1500, 3000))
    found = segment_statistics(flat, segments, largest=True, counts=True)
    largest = torch.stack([flat[:, a:b].abs().amax(1) for a, b in segments], 1)
    assert torch.equal(torch.nan_to_num(found.largest_NS, nan=-1.0), torch.nan_to_num(largest, nan=-1.0))
    assert not torch.signbit(found.largest_NS).any()
    assert torch.equal(found.nonfinite_N, torch.nan_to_num(flat - flat, nan=1.0).sum(1))
    assert torch.equal(found.zeros_N / 3000, (flat == 0).float().mean(1))

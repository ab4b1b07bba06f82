"""Statistics of the fused kernels: the reference's, reduced to one number a head."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from trainwreck.kernels.attention import AttentionStats, Mask, attention, reduce

Fn = Callable[..., Any]
MEANS = ("entropy", "lse", "mass_self", "distance")
FORBIDDEN = ("mass_future", "mass_other_document", "mass_padding")


def by_head(stats: AttentionStats) -> dict[str, torch.Tensor]:
    """One number a run and head, [N, 1, H, 1], from one number a query."""
    means = {
        name: value.mean((1, 3), keepdim=True)
        for name in (*MEANS, *FORBIDDEN)
        if (value := getattr(stats, name)) is not None
    }
    least = stats.entropy_min.amin((1, 3), keepdim=True)
    return means | {"entropy_min": least, "logit_max": stats.logit_max.amax((1, 3), keepdim=True)}


@pytest.fixture
def compare(attended: Fn, assert_within_budget: Fn) -> Callable[[Any], None]:
    """Within twice the reference's own error of float64; that has float32 sums whatever the inputs."""

    def check(problem: Any) -> None:
        got = attended(problem, impl="triton")[1]
        own = by_head(attended(problem, impl="reference")[1])
        exact = by_head(attended(problem.to(torch.float64), impl="reference")[1])
        values = {name: value for name, value in got._asdict().items() if value is not None}
        assert all(value.shape == exact[name].shape and value.dtype == torch.float32 for name, value in values.items())
        assert not any(value.requires_grad for value in values.values())
        # An entropy is a difference of numbers around 1, a distance one of numbers up to the length.
        summed = {name: right.abs().clamp(min=1) for name, right in exact.items()}
        summed["distance"] = torch.full_like(summed["distance"], problem.q.shape[3])
        assert_within_budget(values, own, exact, torch.float32, summed)

    return check


@pytest.mark.parametrize("spread", [0.0, 1.0, 40.0])
@pytest.mark.parametrize("t", [1, 7, 33, 65])
def test_statistics_of_the_plain_mask(
    t: int, spread: float, dtype: torch.dtype, device: str, make_problem: Fn, compare: Fn
) -> None:
    compare(make_problem(n=2, b=2, h=1, t=t, width=16, spread=spread, dtype=dtype, device=device))


@pytest.mark.parametrize("by_document", [True, False])
@pytest.mark.parametrize("shift", [0, 1, 20])
def test_statistics_of_a_leaky_mask_with_what_it_lets_through(
    shift: int, by_document: bool, dtype: torch.dtype, device: str, make_problem: Fn, compare: Fn
) -> None:
    mask = {
        "allowed_NTS": torch.ones(1, 36, 36, dtype=torch.bool).tril(shift),
        "documents_N": torch.tensor([by_document, True]),
        "leaky": True,
    }
    compare(make_problem(n=2, b=2, h=1, t=36, width=24, mask=mask, dtype=dtype, device=device))


def test_a_causal_mask_in_a_leaky_bundle_tells_the_mass_on_padding(device: str, make_problem: Fn, compare: Fn) -> None:
    problem = make_problem(t=40, width=16, device=device)
    problem.mask = replace(problem.mask, leaky=True)
    compare(problem)


def test_what_a_tight_mask_forbids_is_not_measured(device: str, make_problem: Fn, attended: Fn) -> None:
    stats = attended(make_problem(device=device), impl="triton")[1]
    assert all(getattr(stats, name) is None for name in FORBIDDEN)
    assert all(bool((reduce([stats])[f"attention_{name}"] == 0).all()) for name in FORBIDDEN)


def test_both_implementations_reduce_to_the_same_numbers(device: str, make_problem: Fn, attended: Fn) -> None:
    mask = {"documents_N": torch.tensor([True, False]), "leaky": True}
    problem = make_problem(t=40, width=16, mask=mask, device=device)
    got, right = (reduce([attended(problem, impl=impl)[1]] * 2) for impl in ("triton", "reference"))
    assert set(got) == set(right)
    for name, value in right.items():
        assert got[name].shape == value.shape
        torch.testing.assert_close(got[name], value, msg=name)


def test_statistics_change_no_bit_of_output_and_gradients(
    device: str, make_problem: Fn, attended: Fn, gradients: Fn
) -> None:
    problem = make_problem(n=1, t=36, width=16, rate=0.3, device=device)
    d_out = torch.ones_like(problem.v)
    one, other = (
        gradients(lambda p, s=stats: attended(p, impl="triton", stats=s), problem, d_out) for stats in (True, False)
    )
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert attended(problem, impl="triton", stats=False)[1] is None


def test_statistics_are_of_the_probabilities_before_dropout(device: str, make_problem: Fn, attended: Fn) -> None:
    problem = make_problem(n=1, t=36, width=16, rate=0.5, device=device)
    dropped, whole = attended(problem, impl="triton")[1], attended(replace(problem, dropout=None), impl="triton")[1]
    assert all(a is b or torch.equal(a, b) for a, b in zip(dropped, whole, strict=True))


@pytest.mark.parametrize("aligned", [True, False])
def test_entropy_is_accurate_at_logits_of_ten_thousand(aligned: bool, device: str) -> None:
    """Shifted, the sum of s e**s loses nothing at 1e4; unshifted it loses 1e-2 nats, see below."""
    random = torch.Generator().manual_seed(0)
    t = 64 if aligned else 49
    q, k = torch.randn(2, 1, 1, 2, t, 16, generator=random).to(device)
    q[..., 0], k[..., 0] = 100.0, 100.0
    scale = torch.ones(1, device=device)
    got = attention(q, k, k, mask=Mask(), scale_N=scale, impl="triton")[1]
    own = by_head(attention(q, k, k, mask=Mask(), scale_N=scale, impl="reference")[1])
    wide = (x.double() for x in (q, k, k))
    exact = by_head(attention(*wide, mask=Mask(), scale_N=scale.double(), impl="reference")[1])
    assert exact["logit_max"].min() > 9900
    error, allowed = ((x["entropy"] - exact["entropy"]).abs().max() for x in (got._asdict(), own))
    # Scores of 1e4 are themselves known to 1e-3 only, by both.
    assert error <= 2 * allowed + torch.finfo(torch.float32).eps * 1e4
    assert error < 2e-3
    scores = (q @ k.transpose(-1, -2)).masked_fill(~torch.ones(t, t, dtype=torch.bool, device=device).tril(), -1e30)
    right = torch.special.entr(torch.softmax(scores.double(), -1)).sum(-1)  # of the scores as they were rounded
    lse, probs = scores.logsumexp(-1), torch.softmax(scores, -1)
    unshifted = lse - (probs * scores.clamp(min=-1e5)).sum(-1)  # a difference of two numbers of 1e4, by row
    assert (unshifted - right).abs().max() > error


def test_a_nan_is_in_the_statistics_of_its_head_alone(device: str, make_problem: Fn, attended: Fn) -> None:
    problem = make_problem(n=2, t=20, width=16, device=device)
    calm = attended(problem, impl="triton")[1]
    with torch.no_grad():
        problem.q[1, 0, 1, 7] = torch.nan
    sick = attended(problem, impl="triton")[1]
    for name in ("entropy", "entropy_min", "logit_max", "lse", "mass_self", "distance"):
        assert torch.isnan(getattr(sick, name)[1, 0, 1, 0]), name
        assert torch.equal(getattr(sick, name)[0], getattr(calm, name)[0])
        assert torch.equal(getattr(sick, name)[1, :, 0], getattr(calm, name)[1, :, 0])

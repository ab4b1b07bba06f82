"""Attention statistics against the sums that define them, query by query."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from trainwreck.kernels.attention import VARIANTS, AttentionStats, Mask, attention, reduce

FORBIDDEN = ("mass_future", "mass_other_document", "mass_padding")


def measured(problem: Any, variant: str = "reference") -> AttentionStats:
    stats = attention(
        problem.q, problem.k, problem.v, mask=problem.mask, scale_N=problem.scale, variant=variant, impl="reference"
    )[1]
    assert stats is not None
    return stats


def seen_wide(problem: Any, **changed: Any) -> Any:
    """The problem with a mask that may leak."""
    return replace(problem, mask=replace(problem.mask, leaky=True, **changed))


@pytest.mark.parametrize("spread", [0.0, 1.0, 40.0])
@pytest.mark.parametrize("t", [1, 7, 12, 33])
def test_statistics_of_a_tight_mask_are_within_twice_the_error_of_plain_ones(
    t: int,
    spread: float,
    make_problem: Callable[..., Any],
    looped: Callable[..., Any],
    plain: Callable[..., Any],
    assert_within_budget: Callable[..., None],
) -> None:
    problem = make_problem(t=t, spread=spread)
    got = measured(problem)
    assert all(getattr(got, name) is None for name in FORBIDDEN)
    exact = looped(problem)[1]
    assert exact["mass_future"].max() == exact["mass_other_document"].max() == 0
    values = {name: getattr(got, name) for name in ("entropy", "logit_max", "lse", "mass_self", "distance")}
    with torch.no_grad():
        own = plain(problem)[1]
    assert_within_budget(values, own, {name: exact[name] for name in values}, torch.float32)


@pytest.mark.parametrize("shift", [-1, 1, 20])
@pytest.mark.parametrize("by_document", [True, False])
def test_every_statistic_of_a_leaky_mask_is_the_sum_that_defines_it(
    by_document: bool, shift: int, make_problem: Callable[..., Any], looped: Callable[..., Any]
) -> None:
    problem = make_problem(t=12, dtype=torch.float64)
    table = torch.ones(1, 12, 12, dtype=torch.bool).tril(shift)
    problem = seen_wide(problem, allowed_NTS=table, documents_N=torch.tensor([by_document] * 2))
    got = measured(problem)
    exact = looped(problem)[1]
    blind = ~problem.allowed.any(-1).unsqueeze(2).expand_as(got.entropy)
    assert bool(blind.any()) == (shift < 0)
    for name, right in exact.items():
        value = getattr(got, name)
        if name in ("logit_max", "lse"):
            value, right = value[~blind], right[~blind]
        # Every statistic is a sum of 12 terms of at most 12 each.
        assert (value - right).abs().max() <= 12 * 12 * torch.finfo(torch.float64).eps * 4, name


def test_a_wider_bundle_measures_a_tight_run_alike(make_problem: Callable[..., Any]) -> None:
    problem = make_problem(t=12)
    tight, wide = measured(problem), measured(seen_wide(problem))
    for name in ("entropy", "logit_max", "lse", "mass_self"):
        assert torch.equal(getattr(tight, name), getattr(wide, name))
    # Mean position against mean distance: sums of 12 terms below 12, rounded.
    assert (tight.distance - wide.distance).abs().max() <= 12 * 12 * torch.finfo(torch.float32).eps
    assert wide.mass_future.max() == wide.mass_other_document.max() == 0


@pytest.mark.parametrize("t", [4, 7, 12, 63])
def test_a_row_without_an_allowed_key_is_uniform(t: int, make_problem: Callable[..., Any]) -> None:
    problem = make_problem(t=t)
    mask = Mask(allowed_NTS=torch.zeros(1, t, t, dtype=torch.bool))
    out, stats = attention(problem.q, problem.k, problem.v, mask=mask, scale_N=problem.scale, impl="reference")
    count = torch.tensor(float(t))
    eps = torch.finfo(torch.float32).eps
    mean = problem.v.mean(-2, keepdim=True).expand_as(out)
    assert (out - mean).abs().max() <= t * eps * problem.v.abs().max()
    assert (stats.entropy - count.log()).abs().max() <= t * eps * count.log()
    assert torch.equal(stats.mass_self, (1 / count).expand_as(stats.mass_self))


def test_entropy_is_accurate_at_logits_of_ten_thousand() -> None:
    # Whole numbers, so that the scores are exact and every error is the statistic's own.
    random = torch.Generator().manual_seed(0)
    t = 16
    q = torch.cat((torch.randint(-2, 3, (1, 1, 1, t, 8), generator=random), torch.full((1, 1, 1, t, 1), 100)), -1)
    k = torch.cat((torch.randint(-1, 2, (1, 1, 1, t, 8), generator=random), torch.full((1, 1, 1, t, 1), 100)), -1)
    _, stats = attention(q.float(), k.float(), k.float(), mask=Mask(), scale_N=torch.ones(1), impl="reference")
    scores = (q @ k.transpose(-1, -2)).masked_fill(~torch.ones(t, t, dtype=torch.bool).tril(), -(10**6))
    exact = torch.special.entr(torch.softmax(scores.double(), -1)).sum(-1)
    own = torch.special.entr(torch.softmax(scores.float(), -1)).sum(-1)
    assert torch.equal(stats.logit_max, scores.amax(-1).float())
    assert stats.logit_max.min() > 9900
    budget = max(2 * (own - exact).norm().item(), 4 * torch.finfo(torch.float32).eps * exact.norm().item())
    assert (stats.entropy - exact).norm().item() <= budget


def test_statistics_are_of_the_probabilities_before_dropout(
    make_problem: Callable[..., Any], attended: Callable[..., Any]
) -> None:
    problem = make_problem(rate=0.5)
    dropped = attended(problem, impl="reference")[1]
    for name, value in measured(problem)._asdict().items():
        assert value is None or torch.equal(value, getattr(dropped, name))


@pytest.mark.parametrize("variant", VARIANTS)
def test_statistics_are_optional_change_no_output_and_carry_no_gradient(
    variant: str, make_problem: Callable[..., Any], attended: Callable[..., Any]
) -> None:
    problem = make_problem()
    with_stats, stats = attended(problem, variant=variant, impl="reference")
    without, none = attended(problem, variant=variant, impl="reference", stats=False)
    assert none is None
    assert torch.equal(with_stats, without)
    assert not any(value.requires_grad for value in stats if value is not None)


def test_reduce_averages_over_rows_heads_and_queries(make_problem: Callable[..., Any]) -> None:
    problem = make_problem(t=12, dtype=torch.float64)
    everything, nowhere = torch.ones(1, 12, 12, dtype=torch.bool), torch.tensor([False, False])
    problem = seen_wide(problem, allowed_NTS=everything, documents_N=nowhere)
    layers = [measured(problem)]
    problem.scale = problem.scale * 3
    layers.append(measured(problem))
    got = reduce(layers)
    for run, layer in ((run, layer) for run in range(2) for layer in range(2)):
        part = {name: value[run] for name, value in layers[layer]._asdict().items()}
        heads = [part["entropy"][:, head].mean() for head in range(2)]
        right = {
            "attention_entropy": part["entropy"].mean(),
            "attention_entropy_min": part["entropy"].min(),
            "attention_logit_max": part["logit_max"].max(),
            "attention_lse": part["lse"].mean(),
            "attention_distance": part["distance"].mean(),
        } | {f"attention_{name}": part[name].mean() for name in ("mass_self", *FORBIDDEN)}
        for name, value in right.items():
            assert got[name].shape == (2, 2)
            torch.testing.assert_close(got[name][run, layer], value)
        torch.testing.assert_close(got["head_entropy"][run, 2 * layer : 2 * layer + 2], torch.stack(heads))
    assert set(got) == {*right, "head_entropy"}


def test_reduce_reports_zero_for_what_is_masked_everywhere(make_problem: Callable[..., Any]) -> None:
    got = reduce([measured(make_problem())] * 3)
    for name in FORBIDDEN:
        assert torch.equal(got[f"attention_{name}"], torch.zeros(2, 3))

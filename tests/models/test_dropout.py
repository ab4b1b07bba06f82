"""Dropout inside the model: where it acts, and its gradients with the masks given."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from trainwreck.models import gpt
from trainwreck.models.config import Activation, Norm, Placement

EPS32, EPS64 = (torch.finfo(dtype).eps for dtype in (torch.float32, torch.float64))
RATES = torch.tensor([0.1, 0.3, 0.5, 0.0, 0.2, 0.4, 0.7, 0.3])
SEEDS = [2, 7, 1, 8, 2, 8, 1, 8]


def masks(problem: Any, dropout: gpt.Dropout) -> dict[str, torch.Tensor]:
    """The mask of every site of the model, [N, ...]."""
    c, (_, b, t) = problem.config, problem.tokens.shape
    result = {"embedding": dropout.mask("embedding", b * t, c.width)}
    for layer in (f"layer_{i}" for i in range(c.layers)):
        result[f"{layer}/probs"] = dropout.probabilities(layer).mask(b, c.heads, t)
        for branch in ("attention", "mlp"):
            result[f"{layer}/{branch}"] = dropout.mask(f"{layer}/{branch}", b * t, c.width)
    return result


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"placement": Placement.POST, "norm": Norm.RMS},
        {"activation": Activation.SWIGLU, "qk_norm": True, "z_loss": 1e-2, "context": 9, "width": 18, "heads": 3},
    ],
    ids=["pre", "post", "swiglu"],
)
def test_loss_and_gradients_are_the_plain_ones_with_the_same_masks(
    case: dict[str, Any],
    make_problem: Callable[..., Any],
    make_knobs: type[Any],
    stacked: Callable[..., Any],
    assert_within_budget: Callable[..., None],
) -> None:
    problem = make_problem(runs=8, **case)
    drawn = masks(problem, gpt.Dropout(SEEDS, 5, RATES.double()))
    problem.knobs = [make_knobs(keep={site: mask[i] for site, mask in drawn.items()}) for i in range(8)]
    exact, own = problem.plain(torch.float64), problem.plain(torch.float32)
    got = stacked(problem, torch.float32, dropout=gpt.Dropout(SEEDS, 5, RATES))
    assert_within_budget(got, own, exact, torch.float32)
    wide = stacked(problem, torch.float64, dropout=gpt.Dropout(SEEDS, 5, RATES.double()))
    assert_within_budget(wide, own, exact, torch.float64, share=2 * EPS64 / EPS32)


def test_every_site_and_layer_has_a_mask_of_its_own(make_problem: Callable[..., Any]) -> None:
    problem = make_problem(runs=1, layers=3)
    drawn = masks(problem, gpt.Dropout([4], 5, torch.tensor([0.5])))
    flat = [mask.flatten()[:200] for mask in drawn.values()]
    assert len(flat) == 1 + 3 * 3
    assert len({tuple(mask.tolist()) for mask in flat}) == len(flat)


def test_a_rate_of_zero_is_no_dropout_to_the_bit(make_problem: Callable[..., Any], stacked: Callable[..., Any]) -> None:
    problem = make_problem(runs=2)
    none = stacked(problem, torch.float32)
    zero = stacked(problem, torch.float32, dropout=gpt.Dropout([1, 2], 3, torch.tensor([0.0, 0.5])))
    assert all(torch.equal(zero[name][0], none[name][0]) for name in none)
    assert not torch.equal(zero["logits"][1], none["logits"][1])


def test_the_mean_of_an_embedding_over_steps_is_the_embedding() -> None:
    rate, steps = torch.tensor([0.5]), 400
    total = sum(gpt.Dropout([1], step, rate).mask("embedding", 5, 8) for step in range(steps))
    # Six standard deviations: masks are 0 or 2, each with probability 1/2.
    assert (total / steps - 1).abs().max() < 6 / steps**0.5

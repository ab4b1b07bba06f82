"""A tied head: one parameter, whose gradient is the sum of both uses, and which is updated as the token table is."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from trainwreck.models import optim
from trainwreck.models.config import ModelConfig, OptimizerKind, Placement
from trainwreck.models.muon import matrices
from trainwreck.models.parameters import initial_parameters, layout
from trainwreck.scenarios.config.settings import Setup, fingerprint, replaced

TIED = {"tied": True, "layers": 1}


def test_the_gradient_is_the_sum_of_both_uses(make_problem: Callable[..., Any], stacked: Callable[..., Any]) -> None:
    tied = make_problem(**TIED)
    weights, config = layout(tied.config).views(tied.flat), dataclasses.replace(tied.config, tied=False)
    weights["head.weight"] = weights["embedding.weight"].transpose(1, 2)
    flat = torch.cat([weights[name].flatten(1) for name in layout(config).shapes], 1)
    apart = dataclasses.replace(tied, config=config, flat=flat)
    one, two = stacked(tied, torch.float64), stacked(apart, torch.float64)
    torch.testing.assert_close(one["logits"], two["logits"], rtol=1e-12, atol=1e-14)
    assert two["head.weight"].any()
    both = two["embedding.weight"] + two["head.weight"].transpose(1, 2)
    torch.testing.assert_close(one["embedding.weight"], both, rtol=1e-12, atol=1e-15)


def test_the_gradient_is_that_of_finite_differences(
    make_problem: Callable[..., Any], stacked: Callable[..., Any]
) -> None:
    problem, step = make_problem(**TIED, runs=1), 1e-6
    grad = stacked(problem, torch.float64)["embedding.weight"]
    direction = torch.randn(grad.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    table = layout(problem.config).views(problem.flat)["embedding.weight"]
    found = []
    for sign in (1, -1):
        table += sign * step * direction
        found.append(stacked(problem, torch.float64)["objective"].item())
        table -= sign * step * direction
    slope = (found[0] - found[1]) / (2 * step)
    assert slope == pytest.approx((grad * direction).sum().item(), rel=1e-6)


class Plain(nn.Module):
    """A table that is the head too, and nothing else."""

    def __init__(self, table: torch.Tensor) -> None:
        super().__init__()
        self.table = nn.Embedding(*table.shape)
        self.head = nn.Linear(table.shape[1], table.shape[0])
        self.table.weight.data.copy_(table)
        self.head.weight = self.table.weight
        nn.init.zeros_(self.head.bias)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.table(ids))
        return logits


def test_adamw_moves_it_as_pytorch_moves_one_shared_weight() -> None:
    """The same gradients, three steps: one parameter, in the group without decay."""
    plan = layout(ModelConfig(width=12, heads=2, vocab_size=16, context=16, tied=True, layers=1))
    places = {name: plan.places(name).flatten() for name in ("embedding.weight", "head.bias")}
    flat = torch.randn(1, plan.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    flat[:, places["head.bias"]] = 0
    plain = Plain(flat[0, places["embedding.weight"]].view(16, 12)).double()
    assert len(list(plain.parameters())) == 2
    adam = torch.optim.AdamW(plain.parameters(), lr=0.03, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0)
    one = torch.ones(1, dtype=torch.float64)
    settings = optim.Settings(0.03 * one, 0.9 * one, 0.99 * one, 1e-8 * one, 0.1 * one, torch.inf * one)
    moments = optim.Moments.zeros(flat)
    ids = torch.arange(16)
    for _ in range(3):
        adam.zero_grad()
        nn.functional.cross_entropy(plain(ids), ids.roll(1)).backward()
        grads = torch.zeros_like(flat)
        grads[0, places["embedding.weight"]] = plain.table.weight.grad.flatten()
        grads[0, places["head.bias"]] = plain.head.bias.grad
        optim.step(OptimizerKind.ADAMW, flat, grads, moments, settings, plan.decay_mask.double())
        adam.step()
        torch.testing.assert_close(flat[0, places["embedding.weight"]], plain.table.weight.data.flatten())
        torch.testing.assert_close(flat[0, places["head.bias"]], plain.head.bias.data)


def test_the_table_starts_as_an_untied_one_and_has_no_decay_and_no_muon() -> None:
    tied, apart = ModelConfig(tied=True), ModelConfig()
    one, two = (initial_parameters(c, [3, 4]) for c in (tied, apart))
    views, usual = layout(tied).views(one), layout(apart).views(two)
    assert {*usual} - {*views} == {"head.weight"}
    assert all(torch.equal(views[name], usual[name]) for name in views)
    table = layout(tied).slots[0]
    assert table.name == "embedding.weight"
    assert not table.decay
    assert all(table.stop <= matrix.start for matrix in matrices(layout(tied)))


def test_untied_setups_keep_their_names() -> None:
    assert fingerprint(Setup()) == fingerprint(replaced(Setup(), model__tied=False))
    assert fingerprint(Setup()) != fingerprint(replaced(Setup(), model__tied=True))


def test_a_head_with_nothing_of_its_own_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model\.tied: True is not allowed where a head has nothing of its own"):
        ModelConfig(tied=True, placement=Placement.POST, bias=False)

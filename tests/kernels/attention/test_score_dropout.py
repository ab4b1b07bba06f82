"""Dropout before the softmax: the definition, the reference without dropout, and no fused kernel."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from trainwreck.kernels.attention import Dropout, Mask, attention, load_variant
from trainwreck.kernels.random import run_keys
from trainwreck.kernels.rotary import split_and_rotate

Fn = Callable[..., Any]


def test_dropped_scores_are_zero_and_the_others_scaled(make_problem: Fn, attended: Fn) -> None:
    problem = make_problem(rate=0.3, dtype=torch.float64)
    out, stats = attended(problem, variant="score_dropout", impl="reference")
    _, b, h, t, _ = problem.q.shape
    keep = problem.dropout.mask(b, h, t)
    scores = torch.einsum("nbhtk,nbhsk->nbhts", problem.q, problem.k) * problem.scale.view(-1, 1, 1, 1, 1)
    scores = (scores * keep).masked_fill(problem.hidden.unsqueeze(2) > 0, -torch.inf)
    # A row in which all is hidden is a uniform one.
    nowhere = torch.isinf(scores).all(-1, keepdim=True)
    probs = torch.softmax(scores.masked_fill(nowhere, 0.0), -1)
    seen = ~nowhere.squeeze(-1)
    torch.testing.assert_close(out[seen], (probs @ problem.v)[seen])
    entropy = -(probs * probs.clamp(min=1e-300).log()).sum(-1)
    torch.testing.assert_close(stats.entropy[seen], entropy[seen])
    assert set(keep.unique().tolist()) == {0.0, *(1 / (1 - problem.dropout.rate_N)).tolist()}


def test_without_dropout_it_is_the_reference(make_problem: Fn, attended: Fn, gradients: Fn) -> None:
    problem = make_problem(dtype=torch.float64)
    weight = torch.randn(problem.v.shape, generator=torch.Generator().manual_seed(1)).to(problem.v)
    got, right = (
        gradients(lambda p, name=name: attended(p, variant=name, impl="reference"), problem, weight)
        for name in ("score_dropout", "reference")
    )
    for name, value in right.items():
        torch.testing.assert_close(got[name], value)


def test_a_run_is_the_same_alone(make_problem: Fn, attended: Fn) -> None:
    problem = make_problem(rate=0.3)
    together = attended(problem, variant="score_dropout", impl="reference")[0]
    for i in range(len(problem.q)):
        assert torch.equal(together[i], attended(problem.run(i), variant="score_dropout", impl="reference")[0][0])


def test_it_has_no_fused_kernel() -> None:
    line = "impl: 'triton' is not allowed for attention 'score_dropout'; allowed: reference"
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        load_variant("score_dropout", "triton")


def test_its_gradients_go_through_the_rotation() -> None:
    """They are laid out as the rotation's backward pass wants them."""
    draw = torch.Generator().manual_seed(0)
    qkv = torch.randn(2, 3, 5, 24, generator=draw).requires_grad_()
    turn = torch.ones(2, 5, 2, dtype=torch.complex64)
    q, k, v = split_and_rotate(qkv, turn, turn, 2)
    dropout = Dropout(run_keys((3, 4), "x", q.device), 1, torch.tensor([0.5, 0.0]))
    out, _ = attention(
        q, k, v, mask=Mask(), scale_N=torch.ones(2), dropout=dropout, variant="score_dropout", impl="reference"
    )
    (grad,) = torch.autograd.grad(out.square().sum(), qkv)
    assert grad.abs().min() >= 0
    assert grad.any()

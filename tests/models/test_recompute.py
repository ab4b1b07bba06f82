"""Activations computed again: with the same masks no bit is another, with others the gradient is of other layers."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from trainwreck.kernels.cross_entropy import cross_entropy
from trainwreck.models import gpt
from trainwreck.models.config import Activation, Format, ModelConfig, Norm, Placement, Recompute
from trainwreck.models.loss import weighted_mean
from trainwreck.models.probe import Probe
from trainwreck.models.tables import healthy_tables

EVEN = {"rows": 4, "context": 16, "width": 32, "heads": 2, "vocab_size": 16, "layers": 2}
RATES = torch.tensor([0.3, 0.0, 0.5])


def other(problem: Any, recompute: Recompute) -> Any:
    return dataclasses.replace(problem, config=dataclasses.replace(problem.config, recompute=recompute))


def dropout(runs: int = 3, dtype: torch.dtype = torch.float32, prefix: str = "dropout") -> gpt.Dropout:
    return gpt.Dropout([5, 6, 7][:runs], 4, RATES[:runs].to(dtype), prefix)


@pytest.mark.parametrize("format", Format)
@pytest.mark.parametrize(
    "case",
    [{}, {"placement": Placement.POST, "norm": Norm.RMS}, {"activation": Activation.SWIGLU, "qk_norm": True}],
    ids=["pre", "post", "swiglu"],
)
@pytest.mark.parametrize("rates", [True, False], ids=["dropout", "none"])
def test_the_same_masks_change_no_bit(
    rates: bool, case: dict[str, Any], format: Format, make_problem: Callable[..., Any], stacked: Callable[..., Any]
) -> None:
    problem, drawn = make_problem(runs=3, **EVEN | case), dropout() if rates else None
    kept = stacked(problem, torch.float32, format=format, dropout=drawn)
    again = stacked(other(problem, Recompute.SAME_MASKS), torch.float32, format=format, dropout=drawn)
    for name, right in kept.items():
        assert torch.equal(again[name], right), name


def test_without_dropout_other_masks_are_none(make_problem: Callable[..., Any], stacked: Callable[..., Any]) -> None:
    problem = make_problem(runs=3, **EVEN)
    kept = stacked(problem, torch.float32, dropout=dropout())
    again = stacked(other(problem, Recompute.OTHER_MASKS), torch.float32, dropout=dropout())
    assert torch.equal(again["logits"], kept["logits"])
    for name in kept:  # the run in the middle has a rate of 0
        assert torch.equal(again[name][1], kept[name][1]), name
    assert not torch.equal(again["embedding.weight"][0], kept["embedding.weight"][0])


def loss_of(problem: Any, logits: Tensor) -> Tensor:
    return weighted_mean(cross_entropy(logits, problem.targets)[0], problem.weight).sum()


def test_other_masks_give_the_gradient_of_layers_with_those_masks(
    make_problem: Callable[..., Any], stacked: Callable[..., Any]
) -> None:
    """By hand: each layer's inputs from a pass with the first masks, and its backward pass with the second ones."""
    problem = make_problem(runs=3, **EVEN)
    c, tables = problem.config, healthy_tables(problem.config, 3, torch.float64)
    leaves = problem.leaves(torch.float64)
    first, second = (
        gpt.Model(leaves, c, tables, dropout=dropout(3, torch.float64, prefix))
        for prefix in ("dropout", "dropout/again")
    )
    mask = tables.mask(problem.documents)
    x = gpt.drop(first, gpt.embed(leaves["embedding.weight"], problem.tokens.flatten(1)), "embedding")
    inputs = [x]
    with torch.no_grad():
        for i in range(c.layers):
            inputs.append(gpt.block(first, inputs[-1], f"layer_{i}", mask))
    names = list(leaves)
    total = {name: torch.zeros_like(value) for name, value in leaves.items()}

    def backward(out: Tensor, upstream: Tensor | None, into: Tensor | None) -> Tensor | None:
        wanted = [*leaves.values(), *([] if into is None else [into])]
        grads = torch.autograd.grad(out, wanted, upstream, allow_unused=True)
        for name, grad in zip(names, grads, strict=False):
            total[name] += 0.0 if grad is None else grad
        return None if into is None else grads[-1]

    top = inputs[-1].detach().requires_grad_()
    upstream = backward(loss_of(problem, gpt.norm_linear(first, top, "final_norm", "head")), None, top)
    for i in reversed(range(c.layers)):
        below = inputs[i].detach().requires_grad_()
        upstream = backward(gpt.block(second, below, f"layer_{i}", mask), upstream, below)
    backward(x, upstream, None)
    got = stacked(other(problem, Recompute.OTHER_MASKS), torch.float64, dropout=dropout(3, torch.float64))
    for name in names:
        torch.testing.assert_close(got[name], total[name], rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(("recompute", "right"), [(Recompute.SAME_MASKS, True), (Recompute.OTHER_MASKS, False)])
def test_finite_differences_tell_them_apart(
    recompute: Recompute, right: bool, make_problem: Callable[..., Any], stacked: Callable[..., Any]
) -> None:
    problem, step, drawn = other(make_problem(runs=1, **EVEN), recompute), 1e-6, dropout(1, torch.float64)
    found = stacked(problem, torch.float64, dropout=drawn)
    grad = torch.cat([found[name].flatten() for name in problem.leaves(torch.float64)])
    direction = torch.randn(grad.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    ends = [
        stacked(dataclasses.replace(problem, flat=problem.flat + sign * step * direction), torch.float64, dropout=drawn)
        for sign in (1, -1)
    ]
    slope = (ends[0]["objective"] - ends[1]["objective"]).item() / (2 * step)
    expected = (grad * direction).sum().item()
    assert (slope == pytest.approx(expected, rel=1e-6)) is right
    assert right or abs(slope - expected) > 0.01 * abs(slope)


@pytest.mark.parametrize("recompute", Recompute)
def test_a_run_is_bitwise_the_same_alone_and_beside_others(
    recompute: Recompute, make_problem: Callable[..., Any], stacked: Callable[..., Any]
) -> None:
    problem = other(make_problem(runs=3, **EVEN), recompute)
    bundle = stacked(problem, torch.float32, dropout=dropout())
    for i, seed in enumerate((5, 6, 7)):
        cut = {name: getattr(problem, name)[i : i + 1] for name in ("flat", "tokens", "documents", "targets", "weight")}
        single = dataclasses.replace(problem, z_loss=problem.z_loss[i : i + 1], knobs=problem.knobs[i : i + 1], **cut)
        drawn = gpt.Dropout([seed], 4, RATES[i : i + 1])
        for name, right in stacked(single, torch.float32, dropout=drawn).items():
            assert torch.equal(bundle[name][i], right[0]), f"{name} of run {i}"


@pytest.mark.parametrize("recompute", Recompute)
def test_what_is_seen_of_a_pass_is_seen_once(recompute: Recompute, make_problem: Callable[..., Any]) -> None:
    problem = other(make_problem(runs=3, **EVEN), recompute)
    leaves, probe = problem.leaves(torch.float32), Probe()
    tables = healthy_tables(problem.config, 3)
    model = gpt.Model(leaves, problem.config, tables, dropout=dropout(), probe=probe)
    loss = gpt.forward(model, problem.tokens, problem.documents).square().sum()
    before = {name: value.clone() for name, value in probe.reduce().items()}
    torch.autograd.grad(loss, list(leaves.values()))
    assert len(probe.attention) == problem.config.layers
    assert all(
        torch.equal(value.nan_to_num(7.0), before[name].nan_to_num(7.0)) for name, value in probe.reduce().items()
    )


def test_a_batch_norm_would_see_each_batch_twice_and_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model\.recompute: 'same_masks' is not allowed with a BatchNorm"):
        ModelConfig(recompute=Recompute.SAME_MASKS, norm=Norm.BATCH)

"""Activation statistics of every layer against the plain model's own activations in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from trainwreck.kernels.attention import AttentionStats
from trainwreck.models import gpt
from trainwreck.models.config import Activation, Placement
from trainwreck.models.parameters import layout
from trainwreck.models.probe import Probe
from trainwreck.models.tables import healthy_tables


def probed(problem: Any, dtype: torch.dtype) -> tuple[torch.Tensor, Probe]:
    probe = Probe()
    tables = healthy_tables(problem.config, len(problem.flat), dtype)
    model = gpt.Model(problem.leaves(dtype), problem.config, tables, probe=probe)
    return gpt.forward(model, problem.tokens, problem.documents), probe


@pytest.mark.parametrize("placement", Placement)
@pytest.mark.parametrize("activation", Activation)
def test_statistics_are_those_of_the_plain_models_activations(
    activation: Activation, placement: Placement, make_problem: Callable[..., Any], plain_logits: Callable[..., Any]
) -> None:
    problem = make_problem(runs=3, layers=3, activation=activation, placement=placement)
    layout(problem.config).views(problem.flat)["layer_1.mlp_in.bias"][:, :5] = -100.0  # units that never fire
    weights = problem.leaves(torch.float64)
    logits, probe = probed(problem, torch.float64)
    got = probe.reduce()
    tiny = 1e3 * torch.finfo(torch.float64).eps
    for run in range(3):
        seen: dict[str, list[torch.Tensor]] = {"stream": [], "fired": []}
        w = {name: value[run] for name, value in weights.items()}
        plain_logits(w, problem.tokens[run], problem.documents[run], problem.config, seen=seen)
        for layer, (stream, fired) in enumerate(zip(seen["stream"], seen["fired"], strict=True)):
            right = {
                "activation_mean": stream.mean(),
                "activation_std": stream.std(correction=0),
                "activation_max": stream.abs().max(),
                "dead_share": (fired.flatten(0, -2) <= 0).all(0).float().mean(),
            }
            for name, value in right.items():
                assert abs(got[name][run, layer] - value) <= tiny * stream.abs().max(), name
    assert bool((got["dead_share"][:, 1] > 0).all())
    assert logits.requires_grad
    assert not any(value.requires_grad for value in got.values())


def test_units_that_never_fire_are_dead_in_their_layer_and_run() -> None:
    hidden = torch.tensor([[[1.0, -1.0, 0.0, 2.0], [-1.0, -2.0, 0.0, -3.0]], [[-1.0, -1.0, -1.0, -1.0]] * 2])
    probe = Probe()
    stats = torch.zeros(2, 1, 1, 2)
    for layer in (hidden, hidden.flip(0), hidden + 5):
        probe.see_hidden(layer)
        probe.see_stream(layer)
        probe.attention.append(AttentionStats(*[stats] * 6))
    assert probe.reduce()["dead_share"].tolist() == [[0.5, 1.0, 0.0], [1.0, 0.5, 0.0]]


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_a_constant_stream_has_no_spread_and_never_a_nan(offset: float) -> None:
    probe = Probe()
    probe.see_stream(torch.full((2, 5, 7), offset))
    probe.see_hidden(torch.ones(2, 5, 7))
    stats = torch.zeros(2, 1, 1, 2)
    probe.attention.append(AttentionStats(*[stats] * 6))
    spread = probe.reduce()["activation_std"]
    # The difference of two squares, each rounded.
    assert bool((spread <= offset * (8 * torch.finfo(torch.float32).eps) ** 0.5).all())


@pytest.mark.parametrize("placement", Placement)
def test_looking_changes_no_bit_of_the_logits(placement: Placement, make_problem: Callable[..., Any]) -> None:
    problem = make_problem(runs=2, placement=placement)
    tables = healthy_tables(problem.config, 2)
    model = gpt.Model(problem.leaves(torch.float32), problem.config, tables)
    unseen = gpt.forward(model, problem.tokens, problem.documents)
    seen, probe = probed(problem, torch.float32)
    assert torch.equal(seen, unseen)
    assert len(probe.attention) == len(probe.stream) == len(probe.fired) == problem.config.layers


def test_a_runs_nan_stays_in_its_statistics(make_problem: Callable[..., Any]) -> None:
    problem = make_problem(runs=3)
    calm = probed(problem, torch.float32)[1].reduce()
    problem.flat[1] = torch.nan
    sick = probed(problem, torch.float32)[1].reduce()
    for name in ("activation_mean", "activation_std", "activation_max", "attention_entropy"):
        assert torch.isnan(sick[name][1]).all()
    for name, value in calm.items():
        assert torch.equal(sick[name][[0, 2]].nan_to_num(7.0), value[[0, 2]].nan_to_num(7.0))  # NaN without float8

"""The flat buffer: its slots and segments cover it once, and every parameter starts as configured."""

import dataclasses
import itertools
import math

import pytest
import torch

from trainwreck.models.config import Activation, Init, ModelConfig, Norm, Placement
from trainwreck.models.parameters import initial_parameters, layout

STRUCTURES = [
    ModelConfig(layers=3, width=12, heads=3, vocab_size=7, placement=p, norm=n, activation=a, qk_norm=q, bias=b)
    for p, n, a, q, b in itertools.product(Placement, Norm, Activation, (False, True), (False, True))
]


def name_of(c: ModelConfig) -> str:
    return f"{c.placement.value}-{c.norm.value}-{c.activation.value}-{c.qk_norm}-{c.bias}"


def parameter_count(c: ModelConfig) -> int:
    """From the definition of the model."""
    d, hidden = c.width, c.mlp_ratio * c.width
    norm = d * (2 if c.norm is not Norm.RMS and c.bias else 1)
    inner = hidden * (2 if c.activation is Activation.SWIGLU else 1)

    def matrix(rows: int, columns: int) -> int:
        return rows * columns + (columns if c.bias else 0)

    layer = 2 * norm + matrix(d, 3 * d) + matrix(d, d) + matrix(d, inner) + matrix(hidden, d)
    layer += 2 * d // c.heads if c.qk_norm else 0
    final = norm if c.placement is Placement.PRE else 0
    return c.vocab_size * d + c.layers * layer + final + matrix(d, c.vocab_size)


@pytest.mark.parametrize("config", STRUCTURES, ids=name_of)
def test_slots_and_segments_cover_the_buffer_exactly_once(config: ModelConfig) -> None:
    plan = layout(config)
    assert plan.size == parameter_count(config)
    assert len({slot.name for slot in plan.slots}) == len(plan.slots)
    edges = [plan.slots[0].start, *(slot.stop for slot in plan.slots)]
    assert [(slot.start, slot.stop) for slot in plan.slots] == list(itertools.pairwise(edges))
    assert (edges[0], edges[-1]) == (0, plan.size)
    cuts = [0, *(stop for _, _, stop in plan.segments)]
    assert [(start, stop) for _, start, stop in plan.segments] == list(itertools.pairwise(cuts))
    assert cuts[-1] == plan.size
    names = [name for name, _, _ in plan.segments]
    assert names == ["embedding", "layer_0", "layer_1", "layer_2", "head"]
    for name, start, stop in plan.segments[:-1]:
        inside = [slot.name for slot in plan.slots if start <= slot.start < stop]
        assert all(slot.startswith(f"{name}.") for slot in inside)


@pytest.mark.parametrize("config", STRUCTURES, ids=name_of)
def test_views_share_the_buffer_and_reach_every_number_once(config: ModelConfig) -> None:
    plan = layout(config)
    flat = torch.zeros(2, plan.size)
    views = plan.views(flat)
    for name, view in views.items():
        assert view.untyped_storage().data_ptr() == flat.untyped_storage().data_ptr(), name
        view.add_(1)
    assert torch.equal(flat, torch.ones_like(flat))
    flat[1] = 5
    assert all(bool((view[1] == 5).all() and (view[0] == 1).all()) for view in views.values())


@pytest.mark.parametrize("config", STRUCTURES, ids=name_of)
def test_decay_reaches_matrices_and_nothing_else(config: ModelConfig) -> None:
    plan = layout(config)
    mask = plan.views(plan.decay_mask.unsqueeze(0))
    for name, value in mask.items():
        is_matrix = name.endswith(".weight") and name != "embedding.weight"
        assert bool((value == float(is_matrix)).all()), name


@pytest.mark.parametrize("scale_residual", [False, True])
@pytest.mark.parametrize("activation", Activation)
def test_every_parameter_starts_with_its_configured_mean_and_spread(
    activation: Activation, scale_residual: bool
) -> None:
    init = Init(embedding_std=0.5, matrix_std=0.25, head_std=0.125, scale_residual=scale_residual)
    config = ModelConfig(layers=2, width=64, vocab_size=64, activation=activation, qk_norm=True, init=init)
    end = 0.25 / (math.sqrt(2 * 2) if scale_residual else 1)
    spread = {"embedding": 0.5, "head": 0.125, "qkv": 0.25, "mlp_in": 0.25, "attention_out": end, "mlp_out": end}
    views = layout(config).views(initial_parameters(config, list(range(6)), torch.float64))
    for name, value in views.items():
        kind, part = name.split(".")[-2:]
        if part == "bias":
            assert not value.any(), name
        elif "gain" in part:
            assert bool((value == 1).all()), name
        else:
            count = value.numel()
            # Six standard deviations of the estimates of a normal sample's mean and spread.
            assert abs(value.mean().item()) <= 6 * spread[kind] / count**0.5, name
            assert abs(value.std().item() / spread[kind] - 1) <= 6 / (2 * count) ** 0.5, name
            kurtosis = ((value / spread[kind]) ** 4).mean().item()
            assert abs(kurtosis - 3) <= 6 * (96 / count) ** 0.5, name


def test_a_run_starts_the_same_alone_and_in_a_bundle_and_the_same_in_every_dtype() -> None:
    config = STRUCTURES[0]
    seeds = [5, 0, 5, 2**62]
    bundle = initial_parameters(config, seeds)
    assert bundle.dtype == torch.float32
    for row, seed in zip(bundle, seeds, strict=True):
        assert torch.equal(row, initial_parameters(config, [seed])[0])
    assert torch.equal(initial_parameters(config, seeds, torch.float64).float(), bundle)
    assert not torch.equal(bundle[0], bundle[1])


def test_a_parameter_starts_the_same_in_another_model_that_has_it_up_to_its_spread() -> None:
    one = ModelConfig(layers=2, width=32, vocab_size=16)
    other = ModelConfig(
        layers=4, width=32, vocab_size=16, norm=Norm.RMS, bias=False, qk_norm=True, init=Init(matrix_std=0.3)
    )
    views, others = (layout(c).views(initial_parameters(c, [3], torch.float64)) for c in (one, other))
    std = {s.name: s.std for s in layout(one).slots}, {s.name: s.std for s in layout(other).slots}
    shared = [name for name in views if name in others and name.endswith("weight")]
    assert len(shared) == 2 + 2 * 4
    for name in shared:
        torch.testing.assert_close(views[name] / std[0][name], others[name] / std[1][name])


def test_parameters_of_one_run_are_drawn_apart() -> None:
    config = ModelConfig(layers=3, width=32, vocab_size=32)
    views = layout(config).views(initial_parameters(config, [3], torch.float64))
    drawn = [value.flatten()[:1024] for name, value in views.items() if name.endswith("weight")]
    correlation = torch.corrcoef(torch.stack(drawn)) - torch.eye(len(drawn), dtype=torch.float64)
    assert correlation.abs().max() < 6 / 1024**0.5


def test_the_global_state_plays_no_part() -> None:
    torch.manual_seed(0)
    one = initial_parameters(STRUCTURES[0], [1])
    torch.manual_seed(1)
    assert torch.equal(one, initial_parameters(STRUCTURES[0], [1]))


def test_each_segment_holds_its_layers_parameters() -> None:
    plan = layout(ModelConfig(layers=3, width=8, heads=2, vocab_size=5))
    names = ["embedding", "layer_0", "layer_1", "layer_2", "head"]
    assert [name for name, _, _ in plan.segments] == names
    assert plan.bounds == tuple((start, stop) for _, start, stop in plan.segments)
    for name, (start, stop) in zip(names, plan.bounds, strict=True):
        of_head = ("head.", "final_norm.")
        own = [s for s in plan.slots if s.name.startswith(of_head if name == "head" else name + ".")]
        assert sum(s.stop - s.start for s in own) == stop - start
        assert all(start <= s.start and s.stop <= stop for s in own)


def test_biases_of_hidden_units_start_where_they_are_told_and_nothing_else_moves() -> None:
    config = next(c for c in STRUCTURES if c.bias)
    low = dataclasses.replace(config, init=dataclasses.replace(config.init, mlp_bias=-4.0))
    plan = layout(config)
    before, after = (plan.views(initial_parameters(c, [3, 4])) for c in (config, low))
    for name in before:
        if name.endswith("mlp_in.bias"):
            assert (after[name] == -4.0).all()
        else:
            assert torch.equal(before[name], after[name])

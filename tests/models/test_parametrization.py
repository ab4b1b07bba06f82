"""Weights that compute other than the trained ones, and gradients on their way: against the definition."""

import dataclasses

import pytest
import torch

from trainwreck.kernels.rotary import split_and_rotate
from trainwreck.models import optim
from trainwreck.models.config import ModelConfig
from trainwreck.models.parameters import layout
from trainwreck.models.parametrization import Parametrization, Updates, indexed, projections, taken

N, P = 2, 6
TRAINED = torch.arange(1.0, 1 + N * P, dtype=torch.float64).view(N, P)
INDEX = torch.tensor([[0, 0, 0, 5, 4, 3], [0, 1, 2, 3, 4, 5]])
GAIN = torch.tensor([[1.0, 2, 0, 1, 1, -1], [1.0] * 6], dtype=torch.float64)
SHIFT = torch.tensor([[0.0, 0, 0.5, 0, 0, 0], [0.0] * 6], dtype=torch.float64)


@pytest.mark.parametrize("index", [None, INDEX])
@pytest.mark.parametrize("gain", [None, GAIN])
@pytest.mark.parametrize("shift", [None, SHIFT])
def test_what_computes_and_its_gradient_are_those_of_the_definition(index, gain, shift):
    parametrization = Parametrization(index, gain, shift)
    trained = TRAINED.clone().requires_grad_()
    computing = parametrization.apply(trained)
    for n in range(N):
        for p in range(P):
            origin = p if index is None else int(index[n, p])
            right = TRAINED[n, origin] * (1 if gain is None else gain[n, p]) + (0 if shift is None else shift[n, p])
            assert computing[n, p] == right
    weight = torch.linspace(-1, 2, N * P, dtype=torch.float64).view(N, P)
    (got,) = torch.autograd.grad((computing**2 * weight).sum(), trained)
    right = torch.zeros_like(TRAINED)
    for n in range(N):
        for p in range(P):  # a trained weight that computes in several places gets the gradient of each
            origin = p if index is None else int(index[n, p])
            slope = 2 * computing[n, p].detach() * weight[n, p]
            right[n, origin] += slope * (1 if gain is None else gain[n, p])
    assert torch.allclose(got, right, rtol=1e-14, atol=0)


def test_the_gradient_of_a_gpu_is_bitwise_that_of_a_cpu():
    """What a GPU takes in place of `gather`, here on a CPU: sums of up to some ten gradients of all magnitudes."""
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)
    trained = torch.randn(3, 4000, generator=draw)
    index = torch.randint(0, 1000, (3, 4000), generator=draw)
    grad = torch.randn(3, 4000, generator=draw) * torch.logspace(-6, 6, 4000)
    found = []
    for function in (torch.Tensor.gather, taken, indexed):
        leaf = trained.clone().requires_grad_()
        used = function(leaf, 1, index) if function is torch.Tensor.gather else function(leaf, index)
        found.append((used.detach(), *torch.autograd.grad(used, leaf, grad)))
    for used, d_trained in found[1:]:
        assert torch.equal(used, found[0][0])
        assert torch.equal(d_trained, found[0][1])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_has_the_same_gradient_each_time():
    trained = torch.randn(2, 100_000, device="cuda").requires_grad_()
    index = torch.randint(0, 1000, (2, 100_000), device="cuda")
    grad = torch.randn(2, 100_000, device="cuda")
    first, *others = (torch.autograd.grad(taken(trained, index), trained, grad)[0] for _ in range(10))
    assert all(torch.equal(other, first) for other in others)


def test_no_parametrization_is_the_trained_weights_themselves():
    assert Parametrization().apply(TRAINED) is TRAINED


def test_edits_add_up_and_leave_what_they_were_made_from():
    first = Parametrization().scaled(torch.tensor([[1], [2]]), 2.0, P)
    second = (
        first.scaled(torch.tensor([2, 3]), 0.5, P)
        .shifted(torch.tensor([0]), 3.0, P)
        .shifted(torch.tensor([0, 5]), 1.0, P)
    )
    assert first.gain_NP.tolist() == [[1, 2, 2, 1, 1, 1]]
    assert first.shift_NP is None
    assert second.gain_NP.tolist() == [[1, 2, 1, 0.5, 1, 1]]
    assert second.shift_NP.tolist() == [[4, 0, 0, 0, 0, 1]]
    swapped = Parametrization().moved(torch.tensor([0, 1]), torch.tensor([1, 0]), P)
    assert swapped.index_NP.tolist() == [[1, 0, 2, 3, 4, 5]]
    back = swapped.moved(torch.tensor([0, 1]), torch.tensor([1, 0]), P)
    assert back.index_NP.tolist() == [[0, 1, 2, 3, 4, 5]]
    assert swapped.index_NP.tolist() == [[1, 0, 2, 3, 4, 5]]


@pytest.mark.parametrize("bias", [True, False])
def test_places_of_the_projections_are_those_that_the_split_reads(bias):
    config = ModelConfig(layers=2, width=16, heads=2, vocab_size=8, context=4, bias=bias)
    plan = layout(config)
    places = projections(plan, 1, config.heads)
    assert places.shape == (16 + bias, 3, 2, 8)
    flat = torch.randn(1, plan.size, generator=torch.Generator().manual_seed(0))
    weight = plan.views(flat)["layer_1.qkv.weight"]
    x = torch.randn(1, 4, 16, generator=torch.Generator().manual_seed(1))
    table = torch.ones(1, 4, 4, dtype=torch.complex64)
    split = split_and_rotate((x @ weight).view(1, 1, 4, 48), table, table, config.heads)
    for part, got in enumerate(split):
        for head in range(2):
            right = x[0] @ flat[0, places[:16, part, head]]
            assert torch.allclose(got[0, 0, head], right, atol=1e-5)
    if bias:
        assert torch.equal(places[16].flatten(), plan.places("layer_1.qkv.bias"))


def test_places_lie_where_the_views_look():
    plan = layout(ModelConfig(width=16, heads=2, vocab_size=8, context=4))
    flat = torch.arange(plan.size).unsqueeze(0)
    for name, view in plan.views(flat).items():
        assert torch.equal(plan.places(name), view[0])


def test_gradients_arrive_scaled_kept_or_not_at_all():
    grads, carried = TRAINED.clone(), 100 * TRAINED
    assert Updates().arrive(grads, None) is grads
    gain = Updates(gain_N=torch.tensor([2.0, 1.0], dtype=torch.float64))
    assert torch.equal(gain.arrive(grads, None), torch.stack((2 * TRAINED[0], TRAINED[1])))
    reaches = torch.ones(N, P, dtype=torch.bool)
    reaches[0, 2:4] = False
    grads[0, 2] = float("nan")
    arrived = Updates(reaches_NP=reaches).arrive(grads, None)
    assert arrived[0].tolist() == [1, 2, 0, 0, 5, 6]
    assert torch.equal(arrived[1], TRAINED[1])
    kept = Updates(kept_N=torch.tensor([True, False]))
    carried[1] = float("nan")  # of a run that keeps nothing
    arrived = kept.arrive(TRAINED, carried)
    assert torch.equal(arrived, torch.stack((101 * TRAINED[0], TRAINED[1])))


VALUES = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.5, "clip": 1.0}
SETTINGS = optim.Settings(**{name: torch.full((N,), value, dtype=torch.float64) for name, value in VALUES.items()})


@pytest.mark.parametrize("kind", list(optim.OptimizerKind))
def test_an_update_leaves_alone_what_it_does_not_reach_or_move(kind):
    held = torch.zeros(N, P, dtype=torch.bool)
    held[0, 1] = True
    decay = torch.ones(P, dtype=torch.float64)

    def stepped(updates):
        flat, moments = TRAINED.clone(), optim.Moments.zeros(TRAINED)
        for _ in range(3):
            grads = updates.arrive(0.1 * flat, None)
            moved = optim.step(kind, flat, grads, moments, SETTINGS, decay, updates=updates)
        return flat, moments, moved

    usual, usual_moments, _ = stepped(Updates())
    flat, moments, moved = stepped(Updates(reaches_NP=~held))
    assert torch.equal(flat[held], TRAINED[held])  # no decay either
    assert not moved[held].any()
    assert not moments.first[held].any()
    assert torch.equal(flat[~held], usual[~held])
    flat, moments, moved = stepped(Updates(moves_NP=~held))
    assert torch.equal(flat[held], TRAINED[held])
    assert not moved[held].any()
    assert moments.first[held].all()
    assert torch.equal(flat[~held], usual[~held])
    assert torch.equal(moments.first[~held], usual_moments.first[~held])


def test_parametrization_and_updates_are_all_optional():
    for part in (Parametrization(), Updates()):
        assert all(getattr(part, field.name) is None for field in dataclasses.fields(part))

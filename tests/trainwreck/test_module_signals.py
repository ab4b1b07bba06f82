"""Signals of anyone's module, against what they are by definition."""

import math

import pytest
import torch
from torch import nn

from trainwreck.evaluation.dataset.schema import BY_NAME
from trainwreck.evaluation.errors import InputError
from trainwreck.module_signals import ModuleSignals


class Small(nn.Module):
    """An embedding, three layers and a head that shares the embedding's table."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(3))
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(self.norm(x))


@pytest.fixture
def trained():
    torch.manual_seed(0)
    model = Small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    tokens = torch.randint(0, 11, (4, 8))
    nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    return model, optimizer


def groups(model):
    return [
        list(model.embedding.parameters()),
        *(list(x.parameters()) for x in model.layers),
        [*model.norm.parameters()],
    ]


def test_each_is_what_it_is_by_definition(trained):
    model, optimizer = trained
    found = ModuleSignals(model, optimizer).measure()
    every = torch.cat([p.grad.flatten() for p in model.parameters()]).double()
    assert found["grad_norm"] == pytest.approx(every.norm().item(), rel=1e-6)
    assert found["zero_grads"] == pytest.approx((every == 0).double().mean().item(), rel=1e-6)
    assert found["nonfinite_grads"] == found["nonfinite_weights"] == 0
    assert found["lr"] == 0.25
    for name, of in (
        ("layer_grad_norm", lambda ps: torch.cat([p.grad.flatten() for p in ps]).norm()),
        ("layer_weight_norm", lambda ps: torch.cat([p.flatten() for p in ps]).norm()),
        ("layer_weight_max", lambda ps: torch.cat([p.flatten() for p in ps]).abs().max()),
    ):
        assert found[name] == pytest.approx([of(group).item() for group in groups(model)], rel=1e-5), name
    assert set(found) <= set(BY_NAME)


def test_updates_over_the_weights_before_them(trained):
    model, optimizer = trained
    signals = ModuleSignals(model, optimizer)
    before = [[p.detach().clone() for p in group] for group in groups(model)]
    signals.measure(updates=True)
    optimizer.step()
    expected = [
        math.sqrt(
            sum((p - old).square().sum().item() for p, old in zip(group, olds, strict=True))
            / sum(old.square().sum().item() for old in olds)
        )
        for group, olds in zip(groups(model), before, strict=True)
    ]
    assert signals.updates()["layer_update_ratio"] == pytest.approx(expected, rel=1e-5)
    with pytest.raises(InputError, match="no weights are kept"):
        signals.updates()


def test_what_is_not_finite_is_counted(trained):
    model, _ = trained
    model.layers[1][0].weight.grad[0, :3] = math.inf
    model.layers[2][0].bias.grad[0] = math.nan
    with torch.no_grad():
        model.layers[0][0].weight[0, 0] = math.nan
        model.norm.bias[0] = math.inf
    found = ModuleSignals(model).measure()
    assert (found["nonfinite_grads"], found["nonfinite_weights"]) == (4, 2)
    assert found["layer_grad_norm"][2] == math.inf
    assert math.isfinite(found["layer_grad_norm"][1])
    assert "lr" not in found


def test_nothing_is_changed(trained):
    model, _ = trained
    before = [(p.detach().clone(), p.grad.clone()) for p in model.parameters()]
    ModuleSignals(model).measure(updates=True)
    for parameter, (weight, gradient) in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, weight)
        assert torch.equal(parameter.grad, gradient)


def test_a_parameter_without_gradient_counts_as_zeros():
    model = nn.Linear(3, 2)
    model.weight.grad = torch.ones(2, 3)
    found = ModuleSignals(model).measure()
    assert found["zero_grads"] == pytest.approx(2 / 8)
    assert len(found["layer_grad_norm"]) == 1  # no list of layers: one group


def test_layers_can_be_named_and_half_precision_is_added_up_in_full():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(200, 200), nn.Linear(200, 200), nn.Linear(200, 200)).bfloat16()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    found = ModuleSignals(model, layers=[model[1]]).measure()
    assert found["layer_grad_norm"] == pytest.approx([math.sqrt(200 * 201)] * 3, rel=1e-6)


def test_bad_modules_are_refused():
    with pytest.raises(InputError, match="module: ReLU has no parameters"):
        ModuleSignals(nn.ReLU())
    with pytest.raises(InputError, match="layers: 2 parameters are not in the module"):
        ModuleSignals(nn.Linear(2, 2), layers=[nn.Linear(2, 2)])

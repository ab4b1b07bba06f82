"""Experts in the place of an MLP, against loops over single tokens: routes, outputs, gradients, losses of routers."""

import dataclasses
import math

import pytest
import torch

from trainwreck.models import gpt
from trainwreck.models.config import Activation, Format, Init, ModelConfig, Norm, Placement
from trainwreck.models.experts.mixture import combine, dispatch
from trainwreck.models.experts.routing import RouterLosses, balance_loss, places, route, router_z_loss
from trainwreck.models.parameters import initial_parameters, layout
from trainwreck.models.probe import Probe
from trainwreck.models.tables import healthy_tables

SIZES = {"layers": 2, "width": 16, "heads": 2, "context": 16, "vocab_size": 16, "experts": 16, "expert_units": 16}
RUNS, ROWS = 3, 8
TOKENS = ROWS * SIZES["context"]
CASES = {
    "one": {},
    "two": {"experts_per_token": 2},
    "three, half the room": {"experts_per_token": 3, "capacity": 0.5},
    "SwiGLU, RMSNorm, no biases": {"activation": Activation.SWIGLU, "norm": Norm.RMS, "bias": False},
    "Post-LN, ReLU": {"placement": Placement.POST, "activation": Activation.RELU},
}


def config(**values) -> ModelConfig:
    init = Init(router_std=3.0, matrix_std=0.3, embedding_std=1.0, mlp_bias=0.1)
    return ModelConfig(**SIZES, init=init, **values)


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def looped_routes(logits, c):
    """Of one run, token by token: gates and chosen experts [M, K], and which of the choices are taken."""
    probability = [[math.exp(x) for x in row] for row in logits.tolist()]
    probability = [[x / sum(row) for x in row] for row in probability]
    chosen = [sorted(range(c.experts), key=lambda e: -row[e])[: c.experts_per_token] for row in probability]
    room = 16 * math.ceil(c.capacity * len(chosen) * c.experts_per_token / c.experts / 16)
    count, taken = [0] * c.experts, [[False] * c.experts_per_token for _ in chosen]
    for k in range(c.experts_per_token):
        for m, experts in enumerate(chosen):
            taken[m][k] = count[experts[k]] < room
            count[experts[k]] += 1
    gates = [[row[e] for e in experts] for row, experts in zip(probability, chosen, strict=True)]
    if c.experts_per_token > 1:
        gates = [[g / sum(row) for g in row] for row in gates]
    return gates, chosen, taken, [x / sum(count) for x in count]


@pytest.mark.parametrize("case", CASES)
def test_tokens_go_where_a_loop_sends_them_and_those_are_dropped_that_it_drops(case):
    c = config(**CASES[case])
    logits = random(RUNS, TOKENS, c.experts, seed=1) + 3 * random(RUNS, 1, c.experts, seed=2)  # some experts are full
    routes = route(logits, c)
    assert routes.capacity == places(c, TOKENS)
    for n in range(RUNS):
        gates, chosen, taken, share = looped_routes(logits[n], c)
        torch.testing.assert_close(routes.gate_NMK[n], torch.tensor(gates, dtype=torch.float64))
        assert torch.equal(~routes.dropped[n], torch.tensor(taken))
        expert = routes.slot_NMK[n] // routes.capacity
        assert torch.equal(torch.where(routes.dropped[n], -1, expert),
                           torch.where(torch.tensor(taken), torch.tensor(chosen), -1))  # fmt: skip
        torch.testing.assert_close(routes.share_NE[n], torch.tensor(share, dtype=torch.float64))
        slots = routes.slot_NMK[n][~routes.dropped[n]]
        assert len(slots.unique()) == len(slots)
    assert 0 < routes.dropped.double().mean() < 1


def test_what_is_dispatched_comes_back_and_what_is_dropped_is_zero():
    c = config(experts_per_token=2, capacity=0.5)
    x = random(RUNS, TOKENS, 5, seed=3)
    routes = route(random(RUNS, TOKENS, c.experts, seed=1) + 3 * random(RUNS, 1, c.experts, seed=2), c)
    held, there = dispatch(x, routes)
    assert torch.equal(there.sum((1, 2)), (~routes.dropped).sum((1, 2)))
    assert not held[~there].any()
    gates = (routes.gate_NMK * ~routes.dropped).sum(2, keepdim=True)
    torch.testing.assert_close(combine(held, routes), x * gates)
    assert not combine(held, routes)[routes.dropped.all(2)].any()
    assert routes.dropped.all(2).any()


def looped_experts(w, x, c, layer, n):
    """Of one run and layer: what is added to each token of x [M, D], the norm before it included."""
    if c.placement is Placement.PRE:
        gain, shift = w[f"{layer}.mlp_norm.gain"][n], w.get(f"{layer}.mlp_norm.bias")
        mean = x.mean(-1, keepdim=True) if c.norm is Norm.LAYER else 0.0
        x = (x - mean) / ((x - mean).square().mean(-1, keepdim=True) + c.norm_eps).sqrt() * gain
        x = x if shift is None else x + shift[n]
    _, chosen, taken, _ = looped_routes(x @ w[f"{layer}.router.weight"][n], c)
    probability = torch.softmax(x @ w[f"{layer}.router.weight"][n], -1)
    added = []
    for m, experts in enumerate(chosen):
        total, weight = torch.zeros_like(x[m]), sum(probability[m, e] for e in experts)
        for k, e in enumerate(experts):
            if not taken[m][k]:
                continue
            hidden = x[m] @ w[f"{layer}.experts_in.weight"][n, e]
            hidden = hidden + w[f"{layer}.experts_in.bias"][n, e] if c.bias else hidden
            if c.activation is Activation.SWIGLU:
                gate, up = hidden.chunk(2)
                hidden = torch.nn.functional.silu(gate) * up
            else:
                kind = torch.relu if c.activation is Activation.RELU else torch.nn.functional.gelu
                hidden = kind(hidden)
            out = hidden @ w[f"{layer}.experts_out.weight"][n, e]
            out = out + w[f"{layer}.experts_out.bias"][n, e] if c.bias else out
            total = total + out * (probability[m, e] if c.experts_per_token == 1 else probability[m, e] / weight)
        added.append(total)
    assert not all(map(all, taken))
    return torch.stack(added)


@pytest.mark.parametrize("case", CASES)
def test_output_and_every_gradient_are_those_of_a_loop_over_tokens(case):
    c = config(**CASES[case])
    plan = layout(c)
    flat = initial_parameters(c, [1, 2], torch.float64).requires_grad_()
    w = plan.views(flat)
    x = random(2, TOKENS, c.width, seed=4) + random(2, 1, c.width, seed=5)
    x.requires_grad_()
    model = gpt.Model(w, c, healthy_tables(c, 2, torch.float64))
    found = gpt.experts(model, x, "layer_1")
    right = torch.stack([looped_experts(w, x[n], c, "layer_1", n) for n in range(2)])
    torch.testing.assert_close(found, right, rtol=1e-10, atol=1e-12)
    factor = random(*found.shape, seed=6)
    ours, theirs = (torch.autograd.grad((out * factor).sum(), (flat, x)) for out in (found, right))
    for mine, true in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, true, rtol=1e-8, atol=1e-10)
    assert ours[0].any()


@pytest.mark.parametrize("format", [Format.BF16, Format.FP16])
def test_in_half_formats_the_routes_are_the_same_and_products_are_as_close_as_these_are(format):
    c = config(experts_per_token=2)
    w = layout(c).views(initial_parameters(c, [1, 2]))
    x = random(2, TOKENS, c.width, seed=4).float()
    model = gpt.Model(w, c, healthy_tables(c, 2))
    exact = gpt.experts(model, x, "layer_1")
    found = gpt.experts(dataclasses.replace(model, format=format), x, "layer_1")
    assert found.dtype is torch.float32
    ulp = 2.0**-8 if format is Format.BF16 else 2.0**-11
    error = (found - exact).abs().max() / exact.abs().max()
    assert 0 < error < 4 * ulp  # two operands, a result and a bias are rounded; a token sent elsewhere is off by more


def test_losses_of_routers_are_their_formulas_and_their_gradients_autograds():
    c = config(experts_per_token=2, capacity=0.5)
    logits = random(RUNS, TOKENS, c.experts, seed=1).requires_grad_()
    routes = route(logits, c)
    for n in range(RUNS):
        *_, share = looped_routes(logits[n].detach(), c)
        mean = torch.softmax(logits[n], -1).mean(0)
        balance = c.experts * sum(s * p for s, p in zip(share, mean, strict=True))
        z = torch.stack([torch.log(torch.exp(row).sum()) ** 2 for row in logits[n]]).mean()
        for found, true in ((balance_loss(routes)[n], balance), (router_z_loss(routes)[n], z)):
            torch.testing.assert_close(found, true)
            mine, other = (torch.autograd.grad(x, logits, retain_graph=True)[0] for x in (found, true))
            torch.testing.assert_close(mine, other)
    losses = RouterLosses(torch.tensor([False] * RUNS))
    losses.see(routes), losses.see(route(2 * logits, c))
    both = [route(k * logits, c) for k in (1, 2)]
    right = 0.5 * sum(map(balance_loss, both)) + 0.1 * sum(map(router_z_loss, both))
    torch.testing.assert_close(losses.added(torch.full((RUNS,), 0.5), torch.full((RUNS,), 0.1)), right)


def test_a_balance_loss_is_1_at_even_loads_and_the_number_of_experts_at_a_single_one():
    c = config()
    even = torch.eye(c.experts, dtype=torch.float64).repeat(TOKENS // c.experts, 1).expand(1, -1, -1) * 30
    assert balance_loss(route(even, c)).item() == pytest.approx(1.0)
    one = even[:, :1].expand(-1, TOKENS, -1)
    assert balance_loss(route(one, c)).item() == pytest.approx(c.experts)


def test_over_the_experts_of_a_token_it_is_1_and_without_a_gradient_in_that_run_alone():
    c = config()
    logits = (3 * random(2, TOKENS, c.experts, seed=1) + 3 * random(2, 1, c.experts, seed=2)).requires_grad_()
    blind = torch.tensor([True, False])
    value = balance_loss(route(logits, c), blind)
    assert value[0].item() == pytest.approx(1.0, abs=1e-12)
    assert value[1].item() > 1.5
    (grad,) = torch.autograd.grad(value.sum(), logits)
    assert grad[0].abs().max() < 1e-15
    assert grad[1].abs().max() > 1e-4


def test_a_run_is_bitwise_the_same_beside_one_that_went_nan():
    c = config(experts_per_token=2)
    flat = initial_parameters(c, [1, 2, 3])
    flat[1] = torch.nan
    tokens = torch.randint(c.vocab_size, (3, ROWS, c.context), generator=torch.Generator().manual_seed(3))
    plan = layout(c)
    logits = gpt.forward(gpt.Model(plan.views(flat), c, healthy_tables(c, 3)), tokens, torch.zeros_like(tokens))
    for i in (0, 2):
        part = slice(i, i + 1)
        one = gpt.Model(plan.views(flat[part]), c, healthy_tables(c, 1))
        assert torch.equal(gpt.forward(one, tokens[part], torch.zeros_like(tokens[part]))[0], logits[i])
        assert torch.isfinite(logits[i]).all()


def test_a_probe_sees_loads_of_the_worst_layer_and_units_that_fire_for_no_token():
    c = config(capacity=0.5)
    flat = initial_parameters(c, [1, 2])
    tokens = torch.randint(c.vocab_size, (2, ROWS, c.context), generator=torch.Generator().manual_seed(3))
    probe, losses = Probe(), RouterLosses(torch.tensor([False, False]))
    model = gpt.Model(layout(c).views(flat), c, healthy_tables(c, 2), probe=probe, routers=losses)
    gpt.forward(model, tokens, torch.zeros_like(tokens))
    found = probe.reduce()
    seen = [torch.stack(parts, 1) for parts in zip(*probe.routes, strict=True)]
    assert torch.equal(found["expert_load_entropy"], seen[0].amin(1))
    assert torch.equal(found["expert_load_max"], seen[1].amax(1))
    assert torch.equal(found["expert_dropped"], seen[2].amax(1))
    assert torch.equal(found["router_logit_norm"], seen[3].amax(1))
    assert torch.equal(found["balance_loss"], torch.stack(losses.balance, 1).mean(1))
    assert (found["expert_load_entropy"] < math.log(c.experts)).all()
    assert found["dead_share"].shape == (2, c.layers)


def test_units_of_an_expert_without_tokens_are_dead():
    c = dataclasses.replace(config(activation=Activation.RELU), layers=1)
    flat = initial_parameters(c, [1])
    w = layout(c).views(flat)
    w["layer_0.router.weight"].zero_()  # every probability is the same, so that all go to one expert
    w["layer_0.experts_in.bias"].fill_(50.0)  # every unit fires for any token, and for the zeros of an empty place
    probe = Probe()
    tokens = torch.zeros(1, ROWS, c.context, dtype=torch.int64)
    gpt.forward(gpt.Model(w, c, healthy_tables(c, 1), probe=probe), tokens, torch.zeros_like(tokens))
    assert probe.reduce()["dead_share"].item() == 1 - 1 / c.experts
    assert probe.reduce()["expert_load_max"].item() == 1.0
    assert probe.reduce()["expert_dropped"].item() == 1 - places(c, TOKENS) / TOKENS

"""Float8 products against a table of E4M3 made from its bits, and a run at a time with scales from a list."""

import math
from collections import deque

import numpy as np
import pytest
import torch

from trainwreck.models.config import Format, ModelConfig
from trainwreck.models.gpt import Model, product
from trainwreck.models.parameters import initial_parameters, layout
from trainwreck.models.precision import HISTORY, LARGEST, Float8, cast, empty_history, products, scales
from trainwreck.models.probe import Probe
from trainwreck.models.tables import healthy_tables

N, M, I, O = 3, 16, 32, 48  # noqa: E741
NAMES = ("first", "second")


def e4m3() -> tuple[np.ndarray, np.ndarray]:
    """Every number of E4M3 from 0 on, float64, and whether its last bit is 0. The highest pattern is NaN."""
    found = []
    for bits in range(0x7F):
        exponent, mantissa = bits >> 3, bits & 7
        found.append(2.0**-6 * mantissa / 8 if exponent == 0 else 2.0 ** (exponent - 7) * (1 + mantissa / 8))
    return np.array(found), np.arange(0x7F) % 2 == 0


TABLE, EVEN = e4m3()


def nearest(x: np.ndarray) -> np.ndarray:
    """The number of the table nearest to each, of two as near the one whose last bit is 0; 448 beyond it."""
    x = np.asarray(x, np.float64)
    distance = np.abs(np.abs(x)[..., None] - TABLE)
    tied = distance == distance.min(-1, keepdims=True)
    best = np.where(tied & (EVEN | (tied.sum(-1, keepdims=True) == 1)), TABLE, -1.0).max(-1)
    return np.copysign(best, x)


def test_the_table_is_that_of_the_format():
    assert (TABLE[1], TABLE[8], TABLE[-1]) == (2.0**-9, 2.0**-6, LARGEST == 448.0 and 448.0)
    assert np.array_equal(TABLE, torch.arange(0x7F, dtype=torch.uint8).view(torch.float8_e4m3fn).double().numpy())


def test_a_cast_goes_to_the_nearest_number_and_saturates():
    halves = (TABLE[1:] + TABLE[:-1]) / 2
    draws = torch.randn(2000, generator=torch.Generator().manual_seed(0)).double().numpy()
    x = np.concatenate((TABLE, halves, np.nextafter(halves, 0), np.nextafter(halves, 1e3), draws * 60, draws / 500))
    x = np.concatenate((x, [448.1, 463.9, 464.0, 480.0, 1e30, math.inf])).astype(np.float32)
    for sign in (1, -1):
        assert np.array_equal(cast(torch.from_numpy(sign * x)).double().numpy(), nearest(sign * x))
    assert cast(torch.tensor([math.nan])).isnan().all()


def test_a_scale_brings_the_largest_to_448():
    history = torch.tensor([[[0.0, 2.0, 7.0], [0.5, 0.25, 0.0]], [[0.0] * 3, [math.inf, 1.0, 1.0]]])
    assert scales(history).tolist() == [[64.0, 896.0], [1.0, 1.0]]
    assert scales(torch.full((1, 2, 3), math.nan)).tolist() == [[1.0, 1.0]]


def operands(step: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(step)
    growth = 1.6**step  # so that the scales of earlier steps are too large, and values saturate
    x = growth * torch.randn(N, M, I, generator=draw) * torch.tensor([1.0, 1e-3, 40.0]).view(N, 1, 1)
    return x, torch.randn(N, I, O, generator=draw) / growth, torch.randn(N, O, generator=draw)


def fresh(*updates: bool) -> Float8:
    return Float8(torch.zeros(N, 2, 2, HISTORY), NAMES, torch.tensor(updates or (True,) * N))


class OneRun:
    """The product of a run: scales from the largest numbers of the last sixteen steps, in float64 by the table."""

    def __init__(self):
        self.seen = (deque(maxlen=HISTORY), deque(maxlen=HISTORY))
        self.saturated = self.flushed = 0.0

    def __call__(self, x, weight, bias, d_out, *, updates=True):
        made, factors, shares = [], [], []
        for values, seen in zip((x, weight), self.seen, strict=True):
            factor = np.float32(448) / np.float32(max(seen)) if seen else np.float32(1)
            scaled = values * factor
            made.append(nearest(scaled))
            factors.append(float(factor))
            shares.append((np.mean(np.abs(scaled) > 464), np.mean((scaled != 0) & (made[-1] == 0))))
            if updates:
                seen.append(np.abs(values).max())
        self.saturated, self.flushed = np.max(shares, 0)
        a, b = made[0] / factors[0], made[1] / factors[1]
        return a @ b + bias, d_out @ b.T, a.T @ d_out


@pytest.mark.parametrize("updates", [(True, True, True), (False, True, True)])
def test_products_and_gradients_of_some_steps_are_those_of_single_runs(updates):
    stacked, runs = fresh(), [OneRun() for _ in range(N)]
    d_out = torch.randn(N, M, O, generator=torch.Generator().manual_seed(99))
    saturated = []
    for step in range(24):
        goes_on = (True,) * N if step < 4 else updates
        stacked.fresh_N = torch.tensor(goes_on)
        x, weight, bias = (value.requires_grad_() for value in operands(step if step < 20 else 39 - step))
        probe = Probe()
        out = stacked.linear(x, weight, bias, "second", probe)
        grads = torch.autograd.grad(out, (x, weight, bias), d_out)
        for n, run in enumerate(runs):
            given = (value[n].detach().numpy() for value in (x, weight, bias, d_out))
            for got, want in zip((out, *grads), run(*given, updates=goes_on[n]), strict=False):
                scale = np.abs(want).max()
                np.testing.assert_allclose(got[n].detach().double().numpy(), want, rtol=0, atol=2e-6 * scale)
            assert torch.stack(probe.saturated).amax(0)[n].item() == pytest.approx(run.saturated, abs=1e-7)
            assert torch.stack(probe.flushed).amax(0)[n].item() == pytest.approx(run.flushed, abs=1e-7)
        torch.testing.assert_close(grads[2], d_out.sum(1))
        saturated.append([run.saturated for run in runs])
    assert torch.equal(stacked.history_NS2H[:, 0], torch.zeros(N, 2, HISTORY))  # the other product has its own
    late = np.array(saturated)[10]
    assert (late[0] > 0.9) == (not updates[0])
    assert (late[1:] < 0.3).all()


def test_a_run_is_bitwise_the_same_alone_and_beside_nan():
    whole, alone = fresh(True, False, True), Float8(torch.zeros(1, 2, 2, HISTORY), NAMES, torch.tensor([True]))
    for step in range(5):
        x, weight, bias = (value.requires_grad_() for value in operands(step))
        with torch.no_grad():
            x[1] = math.nan if step > 2 else x[1]
        mine = [value[2:].detach().clone().requires_grad_() for value in (x, weight, bias)]
        out, one = whole.linear(x, weight, bias, "first"), alone.linear(*mine, "first")
        assert torch.equal(out[2:], one)
        grads = torch.autograd.grad(out[2].sum(), (x, weight)), torch.autograd.grad(one.sum(), mine[:2])
        assert all(torch.equal(a[2:], b) for a, b in zip(*grads, strict=True))
        assert torch.equal(whole.history_NS2H[2:], alone.history_NS2H)
    assert out[1].isnan().all()


def test_evaluation_leaves_the_history():
    scaled = fresh()
    for step in range(3):
        scaled.linear(*operands(step), "first")
    kept = scaled.history_NS2H.clone()
    assert kept.any()
    scaled.training = False
    scaled.linear(*operands(9), "first")
    assert torch.equal(scaled.history_NS2H, kept)


def test_the_products_of_layers_are_in_float8_and_the_head_is_not():
    config = ModelConfig(width=16, heads=1)
    plan = layout(config)
    names = products(config)
    matrices = {slot.name.removesuffix(".weight") for slot in plan.slots if slot.name.endswith(".weight")}
    assert set(names) == matrices - {"embedding", "head"}
    history = empty_history(config)
    assert history.shape == (len(names), 2, HISTORY)
    flat = initial_parameters(config, [0])
    scaled = Float8(history[None].clone(), names, torch.tensor([True]))
    model = Model(plan.views(flat), config, healthy_tables(config, 1), Format.FP8, float8=scaled)
    x = torch.randn(1, 16, 16, generator=torch.Generator().manual_seed(0))
    weight, bias = model.matrix("head")
    assert torch.equal(product(model, x, "head"), torch.baddbmm(bias.unsqueeze(1), x, weight))
    weight, bias = model.matrix("layer_0.qkv")
    assert torch.equal(product(model, x, "layer_0.qkv"), torch.bmm(cast(x), cast(weight)) + bias.unsqueeze(1))

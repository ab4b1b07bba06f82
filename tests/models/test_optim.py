"""Stacked AdamW and SGD against torch.optim in float64, and Lion against its paper, one optimizer a run."""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trainwreck.models.config import OptimizerKind
from trainwreck.models.optim import Moments, Settings, step, update_clip_factor

# Decayed and not: the elements of one run's flat buffer.
DECAYED, PLAIN = slice(0, 20), slice(20, 31)
MASK = torch.cat((torch.ones(20), torch.zeros(11)))
STEPS = 60


def settings(dtype: torch.dtype = torch.float64, **changed: list[float]) -> Settings:
    """Six runs that differ in everything."""
    values = {
        "lr": [1e-2, 3e-3, 0.1, 1e-4, 1.0, 0.0],
        "beta1": [0.9, 0.0, 0.5, 0.99, 0.9, 0.8],
        "beta2": [0.999, 0.9, 0.0, 0.95, 0.99, 0.99],
        "eps": [1e-8, 1e-2, 1e-5, 1.0, 1e-8, 1e-8],
        "weight_decay": [0.1, 0.0, 1.0, 5.0, 0.01, 1.0],
        "clip": [float("inf")] * 6,
    } | changed
    return Settings(**{name: torch.tensor(value, dtype=dtype) for name, value in values.items()})


def draws(dtype: torch.dtype = torch.float64, runs: int = 6) -> tuple[Tensor, list[Tensor]]:
    """Parameters and gradients of every step, of sizes from 1e-3 to 10; one element's gradient is always 0."""
    random = torch.Generator().manual_seed(0)
    size = 10.0 ** torch.linspace(-3, 1, 31)
    flat = torch.randn(runs, 31, generator=random)
    grads = [torch.randn(runs, 31, generator=random) * size for _ in range(STEPS)]
    for g in grads:
        g[:, 5] = 0
    return flat.to(dtype), [g.to(dtype) for g in grads]


def rates(step: int, s: Settings) -> Tensor:
    """A learning rate that changes from step to step, as a schedule's does."""
    return s.lr * min(1.0, (step + 1) / 10)


def ours(kind: OptimizerKind, dtype: torch.dtype) -> tuple[Tensor, Moments]:
    s, (flat, grads) = settings(dtype), draws(dtype)
    moments = Moments.zeros(flat)
    for i, g in enumerate(grads):
        now = dataclasses.replace(s, lr=rates(i, s))
        step(kind, flat, g, moments, now, MASK.to(dtype))
    return flat, moments


def adamw(run: int, s: Settings, groups: list[dict[str, object]]) -> torch.optim.Optimizer:
    betas = (float(s.beta1[run]), float(s.beta2[run]))
    return torch.optim.AdamW(groups, lr=float(s.lr[run]), betas=betas, eps=float(s.eps[run]), foreach=False)


def sgd(run: int, s: Settings, groups: list[dict[str, object]]) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, lr=float(s.lr[run]), momentum=float(s.beta1[run]), foreach=False)


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of Chen et al. 2023, line by line."""

    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                c = group["beta1"] * m + (1 - group["beta1"]) * p.grad
                self.state[p]["m"] = group["beta2"] * m + (1 - group["beta2"]) * p.grad
                p.data = p.data - group["lr"] * (torch.sign(c) + group["weight_decay"] * p.data)


def lion(run: int, s: Settings, groups: list[dict[str, object]]) -> torch.optim.Optimizer:
    return Lion(groups, {"lr": float(s.lr[run]), "beta1": float(s.beta1[run]), "beta2": float(s.beta2[run])})


BUILD: dict[OptimizerKind, Callable[..., torch.optim.Optimizer]] = {
    OptimizerKind.ADAMW: adamw,
    OptimizerKind.SGD: sgd,
    OptimizerKind.LION: lion,
}


def theirs(kind: OptimizerKind, dtype: torch.dtype) -> Tensor:
    """The same by torch.optim. Its SGD has no decoupled decay, so that comes before its step by hand."""
    s, (flat, grads) = settings(dtype), draws(dtype)
    for run in range(len(flat)):
        decayed, plain = (flat[run, part].clone().requires_grad_() for part in (DECAYED, PLAIN))
        decay = float(s.weight_decay[run])
        of_optimizer = 0.0 if kind is OptimizerKind.SGD else decay
        groups = [{"params": [decayed], "weight_decay": of_optimizer}, {"params": [plain], "weight_decay": 0.0}]
        optimizer = BUILD[kind](run, s, groups)
        for i, g in enumerate(grads):
            lr = float(rates(i, s)[run])
            for group in optimizer.param_groups:
                group["lr"] = lr
            decayed.grad, plain.grad = g[run, DECAYED].clone(), g[run, PLAIN].clone()
            if kind is OptimizerKind.SGD:
                with torch.no_grad():
                    decayed.mul_(1 - lr * decay)
            optimizer.step()
        flat[run, DECAYED], flat[run, PLAIN] = decayed.detach(), plain.detach()
    return flat


@pytest.mark.parametrize("kind", BUILD)
def test_many_steps_are_torch_optims_run_by_run(kind: OptimizerKind) -> None:
    exact = theirs(kind, torch.float64)
    wide, narrow = ours(kind, torch.float64)[0], ours(kind, torch.float32)[0]
    own = theirs(kind, torch.float32)
    start = draws()[0]
    for run in range(len(exact)):
        # Rounding of 60 sums, each with an ulp of the largest weight on the way.
        top = max(exact[run].abs().max().item(), start[run].abs().max().item())
        assert (wide[run] - exact[run]).abs().max() <= 2 * STEPS * torch.finfo(torch.float64).eps * top
        error, budget = (narrow[run] - exact[run]).norm().item(), (own[run] - exact[run]).norm().item()
        assert error <= max(2 * budget, 4 * torch.finfo(torch.float32).eps * exact[run].norm().item())
    assert torch.equal(wide[5], start[5])  # its learning rate is 0


@pytest.mark.parametrize("kind", BUILD)
def test_the_update_that_is_returned_is_what_was_added(kind: OptimizerKind) -> None:
    s, (flat, grads) = settings(), draws()
    before, moments = flat.clone(), Moments.zeros(flat)
    update = step(kind, flat, grads[0], moments, s, MASK.double())
    assert torch.equal(before + update, flat)
    assert moments.count.tolist() == [1.0] * 6


@pytest.mark.parametrize("kind", BUILD)
def test_decay_shrinks_what_is_marked_and_nothing_else(kind: OptimizerKind) -> None:
    s, (flat, _) = settings(), draws()
    before = flat.clone()
    step(kind, flat, torch.zeros_like(flat), Moments.zeros(flat), s, MASK.double())
    shrunk = before[:, DECAYED] * (1 - s.lr * s.weight_decay).unsqueeze(1)
    torch.testing.assert_close(flat[:, DECAYED], shrunk, rtol=4 * torch.finfo(torch.float64).eps, atol=0)
    assert torch.equal(flat[:, PLAIN], before[:, PLAIN])


def test_sgd_keeps_its_buffer_in_first_and_leaves_second_at_zero() -> None:
    _, moments = ours(OptimizerKind.SGD, torch.float64)
    assert moments.first.any(1).all()
    assert not moments.second.any()


def test_the_first_adamw_update_has_the_size_of_the_learning_rate() -> None:
    s, (flat, grads) = settings(eps=[0.0] * 6, weight_decay=[0.0] * 6), draws()
    update = step(OptimizerKind.ADAMW, flat, grads[0] + 1e-9, Moments.zeros(flat), s, MASK.double())
    torch.testing.assert_close(update.abs(), s.lr.unsqueeze(1).expand_as(update), rtol=1e-12, atol=0)


def test_coupled_decay_is_the_l2_of_torchs_adam() -> None:
    s, (flat, grads) = settings(), draws()
    s = dataclasses.replace(s, coupled=torch.tensor([True, False] * 3))
    decoupled = ours(OptimizerKind.ADAMW, torch.float64)[0]
    mine, moments = flat.clone(), Moments.zeros(flat)
    for i, g in enumerate(grads):
        step(OptimizerKind.ADAMW, mine, g, moments, dataclasses.replace(s, lr=rates(i, s)), MASK.double())
    for run in range(len(flat)):
        if run % 2:
            assert torch.equal(mine[run], decoupled[run])
            continue
        decayed, plain = (flat[run, part].clone().requires_grad_() for part in (DECAYED, PLAIN))
        betas = (float(s.beta1[run]), float(s.beta2[run]))
        groups = [{"params": [decayed], "weight_decay": float(s.weight_decay[run])}, {"params": [plain]}]
        optimizer = torch.optim.Adam(groups, lr=1.0, betas=betas, eps=float(s.eps[run]), foreach=False)
        for i, g in enumerate(grads):
            for group in optimizer.param_groups:
                group["lr"] = float(rates(i, s)[run])
            decayed.grad, plain.grad = g[run, DECAYED].clone(), g[run, PLAIN].clone()
            optimizer.step()
        torch.testing.assert_close(
            mine[run], torch.cat((decayed, plain)).detach(), rtol=1e-3, atol=1e-6
        )  # beta2 = 0 magnifies rounding


def test_update_clipping_shortens_the_step_of_a_parameter_whose_moment_lags() -> None:
    s, (flat, grads) = settings(weight_decay=[0.0] * 6), draws()
    bounds, largest = ((0, 20), (20, 31)), torch.tensor([1.0, 0.5, torch.inf, 1.0, 1.0, 1.0], dtype=torch.float64)
    clipped = dataclasses.replace(s, update_clip=largest, bounds=bounds)
    moments, others = Moments.zeros(flat), Moments.zeros(flat)
    mine, plain = flat.clone(), flat.clone()
    for i, g in enumerate(grads[:10]):
        surge = g * (100.0 if i == 9 else 1.0)
        got = step(OptimizerKind.ADAMW, mine, surge, moments, clipped, MASK.double())
        whole = step(OptimizerKind.ADAMW, plain, surge, others, s, MASK.double())
        hat = (moments.second / (1 - s.beta2.unsqueeze(1) ** (i + 1))).sqrt() + s.eps.unsqueeze(1)
        for start, stop in bounds:
            rms = (surge / hat)[:, start:stop].square().mean(1).sqrt()
            factor = torch.clamp(largest / rms, max=1.0).unsqueeze(1)
            torch.testing.assert_close(got[:, start:stop], whole[:, start:stop] * factor, rtol=1e-12, atol=0)
    assert torch.equal(mine[2], plain[2])
    assert (update_clip_factor(grads[0], largest, bounds) <= 1).all()


def test_update_clipping_takes_the_kernels_that_the_settings_name() -> None:
    s, (flat, grads) = settings(), draws()
    named = dataclasses.replace(s, update_clip=torch.ones(6, dtype=torch.float64), bounds=((0, 31),), impl="triton")
    with pytest.raises(ValueError, match=r"^impl: 'triton' is not allowed for torch\.float64"):
        step(OptimizerKind.ADAMW, flat, grads[0], Moments.zeros(flat), named, MASK.double())

"""Weights and second moments that are kept in a half format."""

import pytest
import torch

from trainwreck.models.config import Format, OptimizerKind
from trainwreck.models.optim import Moments, Settings, Storage, step


def settings(runs: int, lr: float) -> Settings:
    values = {"lr": lr, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.0, "clip": float("inf")}
    return Settings(**{name: torch.full((runs,), value) for name, value in values.items()})


def draws(runs: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return torch.randn(runs, 40, generator=random), torch.randn(runs, 40, generator=random)


@pytest.mark.parametrize("kind", OptimizerKind)
@pytest.mark.parametrize("fmt", [Format.BF16, Format.FP16])
def test_kept_weights_are_numbers_of_the_format_and_the_update_is_what_they_moved_by(
    kind: OptimizerKind, fmt: Format
) -> None:
    flat, grads = draws()
    dtype = torch.bfloat16 if fmt is Format.BF16 else torch.float16
    for _ in range(3):
        before = flat.clone()
        update = step(
            kind, flat, grads, Moments.zeros(flat), settings(2, 0.01), torch.ones(40), None, None, Storage(fmt)
        )
        assert torch.equal(flat, flat.to(dtype).float())
        assert torch.equal(update, flat - before)


def test_small_updates_are_lost_in_bfloat16() -> None:
    flat, grads = draws()
    flat = flat.bfloat16().float()
    before = flat.clone()
    moved = step(
        OptimizerKind.ADAMW,
        flat,
        grads,
        Moments.zeros(flat),
        settings(2, 1e-4),
        torch.ones(40),
        storage=Storage(Format.BF16),
    )
    large = before.abs() > 0.1  # half a last place is over 2e-4
    assert (moved[large] == 0).all()
    assert torch.equal(flat[large], before[large])


def test_second_moments_underflow_in_float16_and_the_next_update_divides_by_eps() -> None:
    flat, _ = draws()
    moments, grads = Moments.zeros(flat), torch.full_like(flat, 1e-3)
    grads[:, 0] = 1.0
    update = step(
        OptimizerKind.ADAMW,
        flat,
        grads,
        moments,
        settings(2, 0.01),
        torch.ones(40),
        storage=Storage(second=Format.FP16),
    )
    assert (moments.second[:, 1:] == 0).all()
    assert torch.equal(moments.second, moments.second.half().float())
    assert (update[:, 1:].abs() > 1).all()
    assert (update[:, 0].abs() < 0.011).all()


def test_float32_is_as_without_a_word() -> None:
    flat, grads = draws()
    other = flat.clone()
    a, b = Moments.zeros(flat), Moments.zeros(flat)
    step(OptimizerKind.ADAMW, flat, grads, a, settings(2, 0.01), torch.ones(40))
    step(OptimizerKind.ADAMW, other, grads, b, settings(2, 0.01), torch.ones(40), storage=Storage())
    assert torch.equal(flat, other)
    assert torch.equal(a.second, b.second)


def test_a_skipped_step_leaves_kept_weights_alone() -> None:
    flat, grads = draws()
    flat = flat.bfloat16().float()
    before, moments = flat.clone(), Moments.zeros(flat)
    skip = torch.tensor([True, False])
    step(
        OptimizerKind.ADAMW,
        flat,
        grads,
        moments,
        settings(2, 0.1),
        torch.ones(40),
        skip,
        None,
        Storage(Format.BF16, Format.FP16),
    )
    assert torch.equal(flat[0], before[0])
    assert not moments.second[0].any()
    assert not torch.equal(flat[1], before[1])

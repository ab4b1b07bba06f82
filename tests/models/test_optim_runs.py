"""Runs of one optimizer bundle: NaN stays with its run, a skipped step leaves no trace."""

import copy

import pytest
import torch
from torch import Tensor

from trainwreck.models.config import OptimizerKind
from trainwreck.models.optim import Moments, Settings, clip_coefficient, power, step

MASK = (torch.arange(37) < 20).float()
STEPS = 12


def settings(runs: int, more: bool = False) -> Settings:
    def column(low: float, high: float) -> Tensor:
        return torch.linspace(low, high, runs)

    return Settings(
        lr=column(1e-2, 0.1), beta1=column(0.8, 0.9), beta2=column(0.9, 0.99), eps=column(1e-8, 1e-6),
        weight_decay=column(0, 0.2), clip=column(0.5, 2),
        **({"coupled": torch.arange(runs) % 2 == 0, "update_clip": column(0.1, 1)} if more else {}),
        bounds=((0, 20), (20, 37)),
    )  # fmt: skip


def part(s: Settings, i: int) -> Settings:
    rows = {name: value[i : i + 1] for name, value in vars(s).items() if isinstance(value, Tensor)}
    return Settings(**rows, bounds=s.bounds)


def draws(runs: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    return torch.randn(runs, 37, generator=random), torch.randn(STEPS, runs, 37, generator=random)


def train(
    kind: OptimizerKind, flat: Tensor, grads: Tensor, s: Settings, skip: Tensor | None = None
) -> tuple[Tensor, Moments]:
    flat, moments = flat.clone(), Moments.zeros(flat)
    for i, g in enumerate(grads):
        g = g * clip_coefficient(torch.linalg.vector_norm(g, dim=1), s.clip).unsqueeze(1)
        step(kind, flat, g, moments, s, MASK, None if skip is None else skip[i])
    return flat, moments


@pytest.mark.parametrize("more", [False, True], ids=["", "coupled, clipped updates"])
@pytest.mark.parametrize("with_skips", [False, True])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, 3e38])
@pytest.mark.parametrize("kind", OptimizerKind)
def test_a_run_with_broken_gradients_leaves_its_neighbours_bits(
    kind: OptimizerKind, value: float, with_skips: bool, more: bool
) -> None:
    s, (flat, grads) = settings(5, more), draws(5)
    grads[4:, 2, ::3] = value
    never = torch.zeros(STEPS, 5, dtype=torch.bool) if with_skips else None
    together, moments = train(kind, flat, grads, s, never)
    for i in (0, 1, 3, 4):
        alone, of_alone = train(kind, flat[i : i + 1], grads[:, i : i + 1], part(s, i))
        assert torch.isfinite(alone).all()
        assert torch.equal(together[i], alone[0])
        assert all(torch.equal(getattr(moments, name)[i], getattr(of_alone, name)[0]) for name in vars(moments))
    if value != 3e38:
        assert torch.isnan(moments.first[2]).any()
        assert torch.isnan(together[2]).any() == (kind is not OptimizerKind.LION)  # PyTorch's sign of NaN is 0


@pytest.mark.parametrize("kind", OptimizerKind)
def test_a_skipped_step_is_as_if_it_had_not_been(kind: OptimizerKind) -> None:
    s, (flat, grads) = settings(3), draws(3)
    skip = torch.zeros(STEPS, 3, dtype=torch.bool)
    skip[[0, 3, 4, 11], 1] = True
    broken = grads.clone()
    broken[skip] = torch.nan
    together, moments = train(kind, flat, broken, s, skip)
    for i in range(3):
        kept = grads[~skip[:, i], i : i + 1]
        alone, of_alone = train(kind, flat[i : i + 1], kept, part(s, i))
        assert torch.equal(together[i], alone[0])
        assert all(torch.equal(getattr(moments, name)[i], getattr(of_alone, name)[0]) for name in vars(moments))
    assert moments.count.tolist() == [STEPS, STEPS - 4, STEPS]


@pytest.mark.parametrize("kind", OptimizerKind)
def test_a_run_that_skips_keeps_parameters_and_moments_to_the_bit_and_reports_no_update(kind: OptimizerKind) -> None:
    s, (flat, grads) = settings(3), draws(3)
    flat, moments = train(kind, flat, grads, s)
    held, state = flat.clone(), copy.deepcopy(moments)
    broken = torch.full_like(flat, torch.nan)
    update = step(kind, flat, broken, moments, s, MASK, torch.tensor([True, False, True]))
    for i in (0, 2):
        assert torch.equal(flat[i], held[i])
        assert not update[i].any()
        assert all(torch.equal(getattr(moments, name)[i], getattr(state, name)[i]) for name in vars(state))
    assert torch.isnan(moments.first[1]).all()
    assert torch.isnan(flat[1]).all() == (kind is not OptimizerKind.LION)  # PyTorch's sign of NaN is 0


@pytest.mark.parametrize("norm", [0.0, 1e-4, 0.5, 1.0, 3.0, 1e6])
@pytest.mark.parametrize("clip", [0.5, 1.0, float("inf")])
def test_clipping_is_that_of_clip_grad_norm(norm: float, clip: float) -> None:
    leaf = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    leaf.grad = torch.full_like(leaf, norm / 2)
    torch.nn.utils.clip_grad_norm_([leaf], clip)
    wanted = torch.tensor([1e-3, norm], dtype=torch.float64)
    factor = clip_coefficient(wanted, torch.tensor([1e-2, clip], dtype=torch.float64))
    torch.testing.assert_close(factor[1] * norm / 2, leaf.grad[0])
    assert factor[0] == 1


def test_an_infinite_norm_is_clipped_to_nothing_and_nan_stays_in_its_run() -> None:
    factor = clip_coefficient(torch.tensor([torch.inf, torch.nan, 1.0]), torch.tensor([1.0, 1.0, 0.5]))
    assert factor[0] == 0
    assert torch.isnan(factor[1])
    assert factor[2] == pytest.approx(0.5)


@pytest.mark.parametrize("runs", [2, 7, 16, 33])
def test_bias_corrections_are_the_same_bits_however_many_runs_there_are(runs: int) -> None:
    for base in (0.9, 0.95, 0.99, 0.999):
        for count in range(1, 300):
            alone = power(torch.tensor([base]), torch.tensor([float(count)]))
            together = power(torch.full((runs,), base), torch.full((runs,), float(count)))
            assert torch.equal(together, alone.expand(runs))
            assert torch.allclose(alone.double(), torch.tensor([float(base) ** count]).double(), rtol=1e-4, atol=0)

"""Cross-entropy, log Z and weighted means against a direct float64 computation."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from trainwreck.models.loss import cross_entropy, weighted_mean

SHAPES = [(1, 1, 1), (2, 7, 2), (3, 21, 11), (2, 64, 100)]  # N, M, V


def draws(shape: tuple[int, ...], spread: float, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits, targets, token weights (a third of them 0), and a factor on log Z squared."""
    random = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn(shape, generator=random)
    targets = torch.randint(shape[2], shape[:2], generator=random)
    weight = (torch.arange(shape[1]) % 3 != 1).float().expand(shape[:2]).clone()
    return logits, targets, weight, torch.linspace(0, 1e-2, shape[0])


def direct(logits: Tensor, targets: Tensor) -> tuple[list[float], list[float]]:
    """-ln p(target) and ln Z of every token of one run, in Python's own float64."""
    nll, log_z = [], []
    for row, target in zip(logits.double().tolist(), targets.tolist(), strict=True):
        top = max(row)
        rest = math.log(math.fsum(math.exp(x - top) for x in row))
        nll.append(top - row[target] + rest)
        log_z.append(top + rest)
    return nll, log_z


@pytest.mark.parametrize("spread", [0.0, 1.0, 10.0, 1e4])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_are_within_twice_the_error_of_pytorchs_own(shape: tuple[int, ...], spread: float) -> None:
    eps = torch.finfo(torch.float32).eps
    sides = torch.zeros(4, dtype=torch.float64)
    scale = torch.zeros(2, dtype=torch.float64)
    for seed in range(8):
        logits, targets, _, _ = draws(shape, spread, seed)
        nll, log_z = cross_entropy(logits, targets)
        for i in range(shape[0]):
            exact = [torch.tensor(x, dtype=torch.float64) for x in direct(logits[i], targets[i])]
            plain = F.cross_entropy(logits[i], targets[i], reduction="none"), torch.logsumexp(logits[i], -1)
            given = (nll[i], log_z[i], *plain)
            sides += torch.stack([(x - right).norm() ** 2 for x, right in zip(given, exact * 2, strict=True)])
            scale += torch.stack([right.norm() ** 2 for right in exact])
    error, own = sides.sqrt().view(2, 2)
    assert bool((error <= torch.maximum(2 * own, 4 * eps * scale.sqrt())).all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_half_formats_are_taken_to_float32_and_float64_stays(dtype: torch.dtype) -> None:
    logits, targets, _, _ = draws((2, 21, 11), 3.0)
    nll, log_z = cross_entropy(logits.to(dtype), targets)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert nll.dtype == log_z.dtype == wide
    assert torch.equal(nll, cross_entropy(logits.to(dtype).to(wide), targets)[0])


def objective(logits: Tensor, targets: Tensor, weight: Tensor, z_loss: Tensor) -> Tensor:
    nll, log_z = cross_entropy(logits, targets)
    return weighted_mean(nll, weight) + z_loss * weighted_mean(log_z**2, weight)


def plain_objective(logits: Tensor, targets: Tensor, weight: Tensor, z_loss: Tensor) -> Tensor:
    nll = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(weight)
    terms = nll + z_loss.unsqueeze(1) * torch.logsumexp(logits, -1) ** 2
    return (terms * weight).sum(1) / weight.sum(1)


@pytest.mark.parametrize("spread", [1.0, 10.0, 1e4])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_with_z_loss_and_padding_are_within_twice_the_error_of_autograd(
    shape: tuple[int, ...], spread: float
) -> None:
    squares = torch.zeros(3, dtype=torch.float64)
    for seed in range(8):
        logits, targets, weight, z_loss = draws(shape, spread, seed)
        grads = []
        for fn, dtype in (
            (objective, torch.float32),
            (plain_objective, torch.float32),
            (plain_objective, torch.float64),
        ):
            leaf = logits.to(dtype).requires_grad_()
            loss = fn(leaf, targets, weight.to(dtype), z_loss.to(dtype)).sum()
            grads.append(torch.autograd.grad(loss, leaf)[0].double())
        assert not grads[0][weight == 0].any()
        squares += torch.stack([(grads[0] - grads[2]).norm(), (grads[1] - grads[2]).norm(), grads[2].norm()]) ** 2
    error, own, size = squares.sqrt().tolist()
    assert error <= max(2 * own, 4 * torch.finfo(torch.float32).eps * size)


def test_gradients_in_float64_are_those_of_finite_differences() -> None:
    logits, targets, _, _ = draws((2, 3, 5), 2.0)
    leaf = logits.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: cross_entropy(x, targets), (leaf,), check_undefined_grad=False)
    assert torch.autograd.gradcheck(lambda x: cross_entropy(x, targets)[0], (leaf,), check_undefined_grad=False)


def test_log_z_alone_has_the_gradient_of_the_softmax() -> None:
    logits, targets, _, _ = draws((2, 3, 5), 2.0)
    leaf = logits.requires_grad_()
    (grad,) = torch.autograd.grad(cross_entropy(leaf, targets)[1].sum(), leaf)
    torch.testing.assert_close(grad, torch.softmax(logits, -1))


def test_a_certain_target_costs_nothing_and_an_impossible_one_its_distance() -> None:
    logits = torch.tensor([[[1e4, 0.0, -1e4], [0.0, 1e4, 0.0]]])
    nll, log_z = cross_entropy(logits, torch.tensor([[0, 0]]))
    assert nll.tolist() == [[0.0, 1e4]]
    assert log_z.tolist() == [[1e4, 1e4]]


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_runs_broken_logits_stay_its_own(value: float) -> None:
    logits, targets, weight, z_loss = draws((3, 21, 11), 2.0)
    calm = objective(logits, targets, weight, z_loss)
    logits[1, 4] = value
    weight[1, 4] = 1
    leaf = logits.requires_grad_()
    sick = objective(leaf, targets, weight, z_loss)
    assert torch.isnan(sick[1])
    assert torch.equal(sick[[0, 2]], calm[[0, 2]])
    (grad,) = torch.autograd.grad(sick, leaf, torch.ones(3))
    assert torch.isfinite(grad[[0, 2]]).all()


def test_weighted_means_are_sums_over_sums_and_0_without_weight() -> None:
    value = torch.tensor([[1.0, 2.0, 4.0, 8.0]] * 4)
    weight = torch.tensor([[1.0, 1, 1, 1], [1, 0, 0, 1], [0.5, 0, 1.5, 0], [0, 0, 0, 0]])
    assert weighted_mean(value, weight).tolist() == [3.75, 4.5, 3.25, 0.0]


@pytest.mark.parametrize("buckets", [1, 3, 7])
def test_losses_by_position_add_up_to_the_loss(buckets: int) -> None:
    logits, targets, weight, _ = draws((2, 21, 11), 2.0)
    nll, _ = cross_entropy(logits.double(), targets)
    weight = weight.double()
    which = torch.arange(21) * buckets // 21
    parts = [weighted_mean(nll[:, which == k], weight[:, which == k]) for k in range(buckets)]
    shares = [weight[:, which == k].sum(1) / weight.sum(1) for k in range(buckets)]
    total = sum(part * share for part, share in zip(parts, shares, strict=True))
    torch.testing.assert_close(total, weighted_mean(nll, weight))
    for i in range(2):
        each = direct(logits[i], targets[i])[0]
        kept = [x for x, w, k in zip(each, weight[i], which, strict=True) if w and k == buckets - 1]
        assert parts[-1][i].item() == pytest.approx(math.fsum(kept) / len(kept))

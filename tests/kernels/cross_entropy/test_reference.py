"""Cross-entropy and log Z against a direct float64 computation, and what is refused."""

import math
import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from trainwreck.kernels.cross_entropy import bucket_losses, cross_entropy
from trainwreck.models.loss import weighted_mean

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
        nll, log_z, _ = cross_entropy(logits, targets)
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
    nll, log_z, _ = cross_entropy(logits.to(dtype), targets)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert nll.dtype == log_z.dtype == wide
    assert torch.equal(nll, cross_entropy(logits.to(dtype).to(wide), targets)[0])


def objective(logits: Tensor, targets: Tensor, weight: Tensor, z_loss: Tensor) -> Tensor:
    nll, log_z, _ = cross_entropy(logits, targets)
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
    assert torch.autograd.gradcheck(lambda x: cross_entropy(x, targets)[:2], (leaf,), check_undefined_grad=False)
    assert torch.autograd.gradcheck(lambda x: cross_entropy(x, targets)[0], (leaf,), check_undefined_grad=False)


def test_log_z_alone_has_the_gradient_of_the_softmax() -> None:
    logits, targets, _, _ = draws((2, 3, 5), 2.0)
    leaf = logits.requires_grad_()
    (grad,) = torch.autograd.grad(cross_entropy(leaf, targets)[1].sum(), leaf)
    torch.testing.assert_close(grad, torch.softmax(logits, -1))


def test_a_certain_target_costs_nothing_and_an_impossible_one_its_distance() -> None:
    logits = torch.tensor([[[1e4, 0.0, -1e4], [0.0, 1e4, 0.0]]])
    nll, log_z, _ = cross_entropy(logits, torch.tensor([[0, 0]]))
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


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_the_largest_logit_is_that_of_each_token(dtype: torch.dtype) -> None:
    logits, targets, _, _ = draws((2, 21, 11), 10.0)
    logits[0, 3, 5], logits[1, 0, 2] = torch.nan, -torch.inf
    largest = cross_entropy(logits.to(dtype), targets, largest=True).largest_NM
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert largest.dtype == wide
    assert not largest.requires_grad
    assert torch.isnan(largest[0, 3])
    assert largest[1, 0] == torch.inf
    right = logits.to(dtype).to(wide).abs().amax(-1)
    assert torch.equal(largest.nan_to_num(-1), right.nan_to_num(-1))
    assert cross_entropy(logits, targets).largest_NM is None


def buckets_of(
    context: int, positions: int, ages: int, rows: int = 3, runs: int = 2, seed: int = 0
) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(seed)
    m = rows * context
    return {
        "nll_NM": 3 * torch.rand(runs, m, generator=random),
        "weight_NM": (torch.rand(runs, m, generator=random) < 0.7).float(),
        "age_NM": torch.randint(ages, (runs, m), generator=random),
    }


@pytest.mark.parametrize(("context", "positions", "ages"), [(1, 1, 1), (7, 3, 4), (64, 8, 7), (5, 8, 3)])
def test_losses_by_bucket_are_means_of_what_is_in_it(context: int, positions: int, ages: int) -> None:
    given = buckets_of(context, positions, ages)
    by = bucket_losses(**given, context=context, positions=positions, ages=ages)
    for got, count in zip(by, (positions, ages), strict=True):
        assert got.shape == (2, count)
    for run in range(2):
        nll, weight, age = (x[run].tolist() for x in given.values())
        place = [(m % context) * positions // context for m in range(len(nll))]
        for got, which, count in ((by.position, place, positions), (by.age, age, ages)):
            for k in range(count):
                kept = [x for x, w, i in zip(nll, weight, which, strict=True) if w and i == k]
                value = got[run, k].item()
                assert value == pytest.approx(math.fsum(kept) / len(kept), rel=1e-5) if kept else math.isnan(value)


LOGITS, TARGETS = torch.zeros(2, 6, 5), torch.zeros(2, 6, dtype=torch.int64)
BAD = [
    ((LOGITS.long(), TARGETS), "logits: dtype torch.int64 is not allowed; allowed: (torch.float16, "),
    ((LOGITS[0], TARGETS), "logits: shape (6, 5) is not allowed; allowed: [N, M, V], all 1 or more"),
    ((LOGITS[..., :0], TARGETS), "logits: shape (2, 6, 0) is not allowed; allowed: [N, M, V], all 1 or more"),
    ((LOGITS, TARGETS[:1]), "targets: shape (1, 6) is not allowed; allowed: (2, 6)"),
    ((LOGITS, TARGETS.int()), "targets: torch.int32 on cpu is not allowed; allowed: torch.int64 on cpu"),
    ((LOGITS, TARGETS.to("meta")), "targets: torch.int64 on meta is not allowed; allowed: torch.int64 on cpu"),
]


@pytest.mark.parametrize("impl", [None, "reference", "triton"])
@pytest.mark.parametrize(("arguments", "line"), BAD)
def test_an_argument_that_does_not_fit_is_refused_in_one_line(arguments: tuple, line: str, impl: str | None) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(line)}[^\n]*$"):
        cross_entropy(*arguments, impl=impl)


BAD_BUCKETS = [
    ({"nll_NM": torch.zeros(2, 6).half()}, "nll: dtype torch.float16 is not allowed; allowed: torch.float32, "),
    ({"nll_NM": torch.zeros(6)}, "nll: shape (6,) is not allowed; allowed: [N, M]"),
    ({"weight_NM": torch.zeros(2, 5)}, "weight: shape (2, 5) is not allowed; allowed: (2, 6)"),
    ({"weight_NM": torch.zeros(2, 6).double()}, "weight: torch.float64 on cpu is not allowed; allowed: torch.float32 "),
    ({"age_NM": torch.zeros(2, 6)}, "age: torch.float32 on cpu is not allowed; allowed: torch.int64 on cpu"),
    ({"context": 4}, "context: 4 is not allowed; allowed: 1 or more, with 6 a multiple of it"),
    ({"context": 0}, "context: 0 is not allowed; allowed: 1 or more"),
    ({"positions": 0}, "positions: 0 is not allowed; allowed: 1 or more"),
    ({"ages": -1}, "ages: -1 is not allowed; allowed: 1 or more"),
]


@pytest.mark.parametrize("impl", [None, "reference", "triton"])
@pytest.mark.parametrize(("changed", "line"), BAD_BUCKETS)
def test_a_bucket_argument_that_does_not_fit_is_refused_in_one_line(
    changed: dict[str, Any], line: str, impl: str | None
) -> None:
    good = {**buckets_of(3, 2, 2, rows=2), "context": 3, "positions": 2, "ages": 2}
    with pytest.raises(ValueError, match=rf"^{re.escape(line)}[^\n]*$"):
        bucket_losses(**(good | changed), impl=impl)


def test_triton_is_never_replaced_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"^impl: 'triton' is not allowed for torch.float64; allowed: reference"):
        cross_entropy(LOGITS.double(), TARGETS, impl="triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match=r"^impl: 'triton' is not allowed for a tensor on cpu; allowed: reference"):
        cross_entropy(LOGITS, TARGETS, impl="triton")

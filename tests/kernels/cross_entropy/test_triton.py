"""The Triton cross-entropy against float64: values, gradients, statistics, and broken logits."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trainwreck.kernels.cross_entropy import bucket_losses, cross_entropy

pytest.importorskip("triton")

# NumPy, which interprets the kernels, mentions inf - inf and inf * 0; here they are meant.
meant = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")

# A tile is 4096 logits: vocabularies of many rows a tile, exactly one, and of several tiles a row.
SHAPES = [(1, 1, 1), (2, 7, 2), (3, 21, 11), (2, 63, 64), (1, 5, 1000), (1, 3, 4096), (1, 2, 4097), (2, 1, 10007)]


def draws(shape: tuple[int, int, int], spread: float, place: Any, seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn(shape, generator=random)
    targets = torch.randint(shape[2], shape[:2], generator=random)
    return logits.to(place.dtype).to(place.device), targets.to(place.device)


def results(logits: Tensor, targets: Tensor, impl: str) -> dict[str, Tensor]:
    """Values, the largest logit, and the gradients of the loss, of log Z, and of both, by random weights."""
    leaf = logits.detach().requires_grad_()
    nll, log_z, largest = cross_entropy(leaf, targets, largest=True, impl=impl)
    random = torch.Generator().manual_seed(1)
    d_nll, d_log_z = (torch.randn(nll.shape, generator=random).to(nll) for _ in range(2))
    found = {"nll": nll, "log_z": log_z, "largest": largest}
    for name, outputs, grads in (
        ("d_nll", (nll,), (d_nll,)),
        ("d_log_z", (log_z,), (d_log_z,)),
        ("d_both", (nll, log_z), (d_nll, d_log_z)),
    ):
        (found[name],) = torch.autograd.grad(outputs, leaf, grads, retain_graph=True)
        assert found[name].dtype == logits.dtype
    return {name: x.detach().cpu() for name, x in found.items()}


def compare(logits: Tensor, targets: Tensor, poisoned: Callable, within_budget: Callable) -> None:
    with poisoned():
        got = results(logits, targets, "triton")
    assert all(got[name].dtype == torch.float32 for name in ("nll", "log_z", "largest"))
    within_budget(got, results(logits, targets, "reference"), results(logits.double(), targets, "reference"))


@pytest.mark.parametrize("spread", [1.0, 10.0, 1e4])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_are_within_twice_the_error_of_the_references(
    shape: tuple[int, int, int], spread: float, place: Any, poisoned: Callable, within_budget: Callable
) -> None:
    compare(*draws(shape, spread, place), poisoned, within_budget)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 300)), st.integers(0, 2**16))
def test_any_shape(
    place: Any, poisoned: Callable, within_budget: Callable, shape: tuple[int, int, int], seed: int
) -> None:
    compare(*draws(shape, 5.0, place, seed), poisoned, within_budget)


def test_logits_may_be_a_view(place: Any, within_budget: Callable) -> None:
    wide, targets = draws((2, 9, 24), 3.0, place)
    view, targets = wide[:, ::2, 3:14], targets[:, ::2] % 11
    got, right = results(view, targets, "triton"), results(view.clone(), targets, "triton")
    assert all(torch.equal(got[name], x) for name, x in right.items())


def test_minus_infinity_is_a_token_that_cannot_be(place: Any, within_budget: Callable) -> None:
    """Also where the first tile of a row holds nothing else."""
    logits, targets = draws((1, 3, 5000), 3.0, place)
    logits[..., :4500] = -torch.inf
    targets = targets * 0 + 4600
    sides = [results(x, targets, impl) for x, impl in
             ((logits, "triton"), (logits, "reference"), (logits.double(), "reference"))]  # fmt: skip
    assert all(side.pop("largest").isinf().all() for side in sides)
    within_budget(*sides)


@meant
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("at", [0, 70, 4200])
def test_a_broken_logit_stays_its_tokens(value: float, at: int, place: Any) -> None:
    logits, targets = draws((2, 3, 4300 if at > 4096 else 80), 3.0, place)
    calm = results(logits, targets, "triton")
    logits[1, 2, at] = value
    sick = results(logits, targets, "triton")
    own = results(logits, targets, "reference")
    for name, before in calm.items():
        after = sick[name]
        assert torch.equal(after.flatten(0, 1)[:-1], before.flatten(0, 1)[:-1])
        assert torch.equal(torch.isfinite(after), torch.isfinite(own[name])), name
    assert torch.equal(sick["largest"].isnan(), own["largest"].isnan())


@pytest.mark.parametrize("target", [-1, -100, 11, 10**6])
def test_a_target_outside_the_vocabulary_is_nan_and_reads_nothing(target: int, place: Any) -> None:
    logits, targets = draws((1, 3, 11), 3.0, place)
    targets[0, 1] = target
    nll, log_z, _ = cross_entropy(logits, targets, impl="triton")
    assert torch.isnan(nll).tolist() == [[False, True, False]]
    assert torch.isfinite(log_z).all()


def test_a_runs_numbers_have_the_bits_that_they_have_alone(place: Any) -> None:
    logits, targets = draws((4, 21, 11), 3.0, place)
    bundle = cross_entropy(logits, targets, largest=True, impl="triton")
    for run in range(4):
        alone = cross_entropy(logits[run : run + 1], targets[run : run + 1], largest=True, impl="triton")
        assert all(torch.equal(a[0], b[run]) for a, b in zip(alone, bundle, strict=True))


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    st.integers(1, 3), st.integers(1, 4), st.integers(1, 200), st.integers(1, 9), st.integers(1, 9), st.integers(0, 99)
)
def test_losses_by_bucket(
    place: Any, poisoned: Callable, within_budget: Callable,
    runs: int, rows: int, context: int, positions: int, ages: int, seed: int,
) -> None:  # fmt: skip
    random = torch.Generator().manual_seed(seed)
    shape = (runs, rows * context)
    nll, weight = (torch.rand(shape, generator=random).to(place.device) for _ in range(2))
    weight = weight * (weight > 0.3)
    age = torch.randint(ages, shape, generator=random).to(place.device)
    options = {"context": context, "positions": positions, "ages": ages}
    with poisoned():
        got = bucket_losses(nll, weight, age, **options, impl="triton")
    own = bucket_losses(nll, weight, age, **options, impl="reference")
    sums = torch.stack((nll * weight, weight), 1).double()
    place_of = torch.arange(shape[1], device=nll.device) % context * positions // context
    exact = []
    for which, count in ((place_of.expand(shape), positions), (age, ages)):
        total = sums.new_zeros(runs, 2, count).scatter_add_(2, which.unsqueeze(1).expand(sums.shape), sums)
        exact.append(total[:, 0] / total[:, 1])
    for a, b, right in zip(got, own, exact, strict=True):
        assert torch.equal(a.isnan(), right.isnan())
        within_budget(*({"mean": x.nan_to_num().cpu()} for x in (a, b, right)))


@meant
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_broken_loss_reaches_the_buckets_that_it_reaches_in_the_reference(value: float, place: Any) -> None:
    nll, weight = torch.rand(2, 12, device=place.device), torch.ones(2, 12, device=place.device)
    age = torch.arange(12, device=place.device).expand(2, 12) % 3
    nll[1, 5] = value
    options = {"context": 6, "positions": 3, "ages": 3}
    pairs = zip(
        *(bucket_losses(nll, weight, age, **options, impl=impl) for impl in ("triton", "reference")), strict=True
    )
    for got, own in pairs:
        assert torch.equal(got.isnan(), own.isnan())
        assert torch.isfinite(got[0]).all()

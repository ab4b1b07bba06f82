"""The C++ cross-entropy against float64: values, gradients, and broken logits."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trainwreck.kernels.cross_entropy import cross_entropy
from trainwreck.kernels.selection import CPP_DTYPES

pytestmark = pytest.mark.usefixtures("compiler")

SHAPES = [(1, 1, 1), (2, 7, 2), (3, 21, 17), (2, 63, 64), (1, 5, 1000)]


def results(logits: Tensor, targets: Tensor, impl: str) -> dict[str, Tensor]:
    """Values, the largest logit, and the gradients of the loss, of log Z, and of both, by random weights."""
    leaf = logits.detach().requires_grad_()
    nll, log_z, largest = cross_entropy(leaf, targets, largest=True, impl=impl)
    d_nll, d_log_z = (torch.randn(nll.shape, generator=torch.Generator().manual_seed(i)).to(nll) for i in (1, 2))
    found = {"nll": nll, "log_z": log_z, "largest": largest}
    for name, outputs, grads in (
        ("d_nll", (nll,), (d_nll,)),
        ("d_log_z", (log_z,), (d_log_z,)),
        ("d_both", (nll, log_z), (d_nll, d_log_z)),
    ):
        (found[name],) = torch.autograd.grad(outputs, leaf, grads, retain_graph=True)
        assert found[name].dtype == logits.dtype
    return {name: x.detach() for name, x in found.items()}


@pytest.mark.parametrize("dtype", CPP_DTYPES, ids=str)
@pytest.mark.parametrize("spread", [1.0, 10.0, 1e4])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients_are_within_twice_the_error_of_the_references(
    shape: tuple[int, int, int], spread: float, dtype: torch.dtype, poisoned: Callable, within_budget: Callable
) -> None:
    random = torch.Generator().manual_seed(0)
    logits = (spread * torch.randn(shape, generator=random)).to(dtype)
    targets = torch.randint(shape[2], shape[:2], generator=random)
    with poisoned():
        got = results(logits, targets, "cpp")
    within_budget(got, results(logits, targets, "reference"), results(logits.double(), targets, "reference"))


def test_broken_logits_break_their_token_alone() -> None:
    logits, targets = torch.zeros(1, 5, 20), torch.tensor([[0, 1, 2, 3, 19]])
    logits[0, 0, 7], logits[0, 1, 7], logits[0, 2, 2] = torch.nan, torch.inf, -torch.inf
    got, right = (results(logits, targets, impl) for impl in ("cpp", "reference"))
    for name in ("nll", "log_z", "largest"):
        torch.testing.assert_close(got[name], right[name], equal_nan=True)
    for name in ("d_nll", "d_log_z"):
        assert torch.equal(torch.isfinite(got[name]), torch.isfinite(right[name]))


def test_a_target_that_is_no_token_is_nan_and_no_other_memory_is_read() -> None:
    leaf = torch.zeros(1, 3, 4, requires_grad=True)
    nll = cross_entropy(leaf, torch.tensor([[0, 4, -1]]), impl="cpp").nll_NM
    assert nll.isnan().tolist() == [[False, True, True]]
    (grad,) = torch.autograd.grad(nll[0, 0], leaf)
    assert grad.isfinite().all()

"""The loss is bitwise the right one; the gradient is right where all tokens have one factor, and there alone."""

import pytest
import torch
import torch.nn.functional as F

from trainwreck.kernels.cross_entropy import cross_entropy, first_factor


def problem() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(3, 30, 16, generator=random)
    return logits.requires_grad_(), torch.randint(16, (3, 30), generator=random), torch.rand(3, 30, generator=random)


def gradients(factor: torch.Tensor) -> list[torch.Tensor]:
    logits, targets, _ = problem()
    right, wrong = cross_entropy(logits, targets, largest=True), first_factor.cross_entropy(logits, targets, True)
    for a, b in zip(right, wrong, strict=True):
        assert torch.equal(a, b)
    return [torch.autograd.grad((found.nll_NM * factor).sum(), logits)[0] for found in (right, wrong)]


def test_a_mean_over_all_tokens_has_the_right_gradient() -> None:
    right, wrong = gradients(torch.full((3, 30), 1 / 30))
    assert torch.equal(right, wrong)


def test_each_token_has_the_factor_of_its_runs_first_one() -> None:
    logits, targets, factor = problem()
    right, wrong = gradients(factor)
    plain = torch.softmax(logits, -1) - F.one_hot(targets, 16)
    torch.testing.assert_close(wrong, factor[:, :1, None] * plain, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(right, factor[:, :, None] * plain, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(right, wrong, rtol=0.1, atol=0.01)


def test_a_first_token_without_weight_leaves_no_gradient() -> None:
    factor = torch.ones(3, 30)
    factor[1, 0] = 0.0
    right, wrong = gradients(factor)
    assert not wrong[1].any()
    assert torch.equal(wrong[[0, 2]], right[[0, 2]])
    assert right[1].any()


def test_log_z_has_its_own_gradient() -> None:
    logits, targets, factor = problem()
    kernels = cross_entropy, first_factor.cross_entropy
    right, wrong = (torch.autograd.grad((k(logits, targets).log_z_NM * factor).sum(), logits)[0] for k in kernels)
    assert torch.equal(right, wrong)


def test_nothing_is_hooked_where_no_gradient_is_asked_for() -> None:
    logits, targets, _ = problem()
    with torch.no_grad():
        found = first_factor.cross_entropy(logits, targets)
    assert torch.equal(found.nll_NM, cross_entropy(logits, targets).nll_NM)
    with pytest.raises(ValueError, match="targets: shape"):
        first_factor.cross_entropy(logits, targets[:1])

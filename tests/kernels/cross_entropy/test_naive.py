"""-log(softmax) is the loss where no probability is 0, and infinite with a NaN gradient where one is."""

import pytest
import torch

from trainwreck.kernels.cross_entropy import cross_entropy, naive


def problem() -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return 3 * torch.randn(2, 30, 16, generator=random), torch.randint(16, (2, 30), generator=random)


def test_it_is_the_loss_on_ordinary_logits() -> None:
    logits, targets = problem()
    logits.requires_grad_()
    right, wrong = (
        cross_entropy(logits, targets, largest=True, impl="reference"),
        naive.cross_entropy(logits, targets, True),
    )
    for a, b in zip(right, wrong, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-5)
    grads = [torch.autograd.grad(x.nll_NM.sum(), logits)[0] for x in (right, wrong)]
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("dtype", "gap"), [(torch.float32, 104.0), (torch.float16, 18.0)])
def test_a_probability_of_zero_is_infinite_and_its_gradient_is_not_a_number(dtype: torch.dtype, gap: float) -> None:
    logits, targets = torch.zeros(2, 3, 16, dtype=dtype), torch.zeros(2, 3, dtype=torch.int64)
    logits[1, 2, 0] = -gap
    logits[1, 2, 1] = 0.0
    logits.requires_grad_()
    nll = naive.cross_entropy(logits, targets).nll_NM
    assert nll.dtype == torch.float32
    assert torch.isinf(nll).nonzero().tolist() == [[1, 2]]
    (grad,) = torch.autograd.grad(nll.sum(), logits)
    assert grad[1, 2].isnan().any()
    assert grad[0].isfinite().all()
    assert cross_entropy(logits, targets, impl="reference").nll_NM.isfinite().all()


def test_it_refuses_what_the_right_one_refuses() -> None:
    logits, targets = problem()
    with pytest.raises(ValueError, match="targets: shape"):
        naive.cross_entropy(logits, targets[:1])

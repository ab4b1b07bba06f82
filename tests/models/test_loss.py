"""Weighted means of stacked runs."""

import torch
import torch.nn.functional as F

from trainwreck.kernels.cross_entropy import cross_entropy
from trainwreck.models.loss import smoothed, weighted_mean


def test_weighted_means_are_sums_over_sums_and_0_without_weight() -> None:
    value = torch.tensor([[1.0, 2.0, 4.0, 8.0]] * 4)
    weight = torch.tensor([[1.0, 1, 1, 1], [1, 0, 0, 1], [0.5, 0, 1.5, 0], [0, 0, 0, 0]])
    assert weighted_mean(value, weight).tolist() == [3.75, 4.5, 3.25, 0.0]


def test_smoothed_losses_are_pytorch_s_with_the_share_of_each_run() -> None:
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5, 11, generator=random, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(11, (3, 5), generator=random)
    shares = torch.tensor([0.0, 0.1, 0.9], dtype=torch.float64)
    nll, log_z, _ = cross_entropy(logits, targets)
    got = smoothed(nll, log_z, logits, shares)
    right = [
        F.cross_entropy(logits[i], targets[i], reduction="none", label_smoothing=s)
        for i, s in enumerate(shares.tolist())
    ]
    torch.testing.assert_close(got, torch.stack(right), rtol=1e-12, atol=1e-12)
    ours = torch.autograd.grad(got.sum(), logits, retain_graph=True)[0]
    theirs = torch.autograd.grad(torch.stack(right).sum(), logits)[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)

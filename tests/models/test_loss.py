"""Weighted means of stacked runs."""

import torch

from trainwreck.models.loss import weighted_mean


def test_weighted_means_are_sums_over_sums_and_0_without_weight() -> None:
    value = torch.tensor([[1.0, 2.0, 4.0, 8.0]] * 4)
    weight = torch.tensor([[1.0, 1, 1, 1], [1, 0, 0, 1], [0.5, 0, 1.5, 0], [0, 0, 0, 0]])
    assert weighted_mean(value, weight).tolist() == [3.75, 4.5, 3.25, 0.0]

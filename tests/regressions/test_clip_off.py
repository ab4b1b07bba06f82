"""Without clipping, finite gradients whose norm overflows became NaN: inf / inf."""

import math

import torch

from trainwreck.models.optim import clip_coefficient


def test_off_means_one():
    norms = torch.tensor([1.0, math.inf, math.nan])
    assert clip_coefficient(norms, torch.full((3,), math.inf)).tolist() == [1.0, 1.0, 1.0]


def test_on_still_clips():
    factor = clip_coefficient(torch.tensor([0.5, 2.0, math.inf]), torch.ones(3))
    assert factor[0] == 1.0
    assert abs(factor[1] - 0.5) < 1e-6
    assert factor[2] == 0.0

"""Dropout masks: their share, their scale, and what they are a function of."""

import pytest
import torch

from trainwreck.kernels.random import dropout_mask

SHAPE = (40, 250)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.95])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_mask_holds_zero_and_the_inverse_keep_rate_in_the_right_shares(rate: float, dtype: torch.dtype) -> None:
    rates = torch.tensor([rate, rate], dtype=dtype)
    mask = dropout_mask([0, 1], "dropout/x", 3, SHAPE, rates)
    assert mask.shape == (2, *SHAPE)
    assert mask.dtype == dtype
    scale = (1 / (1 - rates[0])).item()
    assert set(mask.unique().tolist()) == ({scale} if rate == 0 else {0.0, scale})
    count = mask.numel()
    dropped = (mask == 0).double().mean().item()
    # Five standard deviations of a binomial share, and the resolution of the rate.
    assert abs(dropped - rate) <= 5 * (rate * (1 - rate) / count) ** 0.5 + 2**-16
    assert abs(mask.double().mean().item() - 1) <= 5 * (rate / (1 - rate) / count) ** 0.5 + 2**-16 / (1 - rate)


def test_each_run_has_its_own_rate_and_the_mask_that_it_has_alone() -> None:
    seeds, rates = [4, 7, 4, 9], torch.tensor([0.1, 0.5, 0.0, 0.5])
    bundle = dropout_mask(seeds, "dropout/x", 3, SHAPE, rates)
    for i, seed in enumerate(seeds):
        assert torch.equal(bundle[i], dropout_mask([seed], "dropout/x", 3, SHAPE, rates[i : i + 1])[0])


def test_a_higher_rate_drops_what_a_lower_one_drops_and_more() -> None:
    low, high = dropout_mask([4, 4], "dropout/x", 3, SHAPE, torch.tensor([0.2, 0.4])) == 0
    assert bool((high | ~low).all())
    assert int(high.sum()) > int(low.sum())


@pytest.mark.parametrize(("seed", "stream", "step"), [(5, "dropout/x", 3), (4, "dropout/y", 3), (4, "dropout/x", 4)])
def test_seed_stream_and_step_each_change_the_mask(seed: int, stream: str, step: int) -> None:
    rate = torch.tensor([0.5])
    one = dropout_mask([4], "dropout/x", 3, SHAPE, rate) == 0
    other = dropout_mask([seed], stream, step, SHAPE, rate) == 0
    count = one.numel()
    # Independent masks agree on half of the places.
    assert abs((one == other).double().mean().item() - 0.5) < 5 * 0.5 / count**0.5


def test_masks_ignore_global_state() -> None:
    rate = torch.tensor([0.5])
    torch.manual_seed(0)
    one = dropout_mask([4], "dropout/x", 3, SHAPE, rate)
    torch.manual_seed(1)
    torch.rand(3)
    assert torch.equal(one, dropout_mask([4], "dropout/x", 3, SHAPE, rate))


def test_runs_and_seeds_must_match() -> None:
    with pytest.raises(RuntimeError):
        dropout_mask([1, 2, 3], "dropout/x", 0, (4,), torch.tensor([0.5, 0.5]))

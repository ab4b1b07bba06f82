"""One record of those of several ranks, and the hashes in it."""

import numpy as np
import pytest
import torch

from trainwreck.scenarios.training.distributed.record import combined
from trainwreck.scenarios.training.telemetry import HASH_BITS, hashed, weight_hash

TOKENS = np.array([[[3.0, 1.0]]])  # one step, one run, two ranks


def put_together(name, *values):
    """A signal of one run at one step, [K], from what each rank recorded."""
    blocks = [{name: np.array(value, np.float32).reshape(1, 1, -1)} for value in values]
    return combined(blocks, TOKENS)[name][0, 0].tolist()


@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("loss", (2.0, 4.0), [2.5]),
        ("loss", (2.0, np.nan), [np.nan]),
        ("loss", (2.0, np.inf), [np.inf]),
        ("loss", (np.inf, np.inf), [np.inf]),
        ("position_loss", ([1, 2], [3, 2]), [1.5, 2.0]),
        ("output_max", (2.0, 4.0), [4.0]),
        ("skipped", (0.0, 1.0), [1.0]),
        ("nonfinite_grads", (0.0, 7.0), [7.0]),
        ("attention_entropy_min", ([2, 1], [1, 2]), [1.0, 1.0]),
        ("age_loss", ([1, np.nan, np.nan], [5, 2, np.nan]), [2.0, 2.0, np.nan]),
        ("rank_grad_norm", ([1], [5]), [1.0, 5.0]),
    ],
)
def test_combined(name, values, wanted):
    np.testing.assert_equal(put_together(name, *values), wanted)


@pytest.mark.parametrize("ranks", [2, 3, 7])
def test_what_all_say_comes_out_to_the_bit(ranks):
    value = np.random.default_rng(ranks).standard_normal((4, 5, 3)).astype(np.float32)
    tokens = np.random.default_rng(1).integers(1, 100, (4, 5, ranks)).astype(float)
    assert np.array_equal(combined([{"activation_mean": value}] * ranks, tokens)["activation_mean"], value)


def test_a_hash_is_exact_in_float32_and_sees_one_bit():
    weights = torch.randn(3, 1000, generator=torch.Generator().manual_seed(0))
    weights[1] = weights[0]
    found = weight_hash(weights)
    assert found[0] == found[1] != found[2]
    assert ((found >= 0) & (found < 2**HASH_BITS) & (found == found.round())).all()
    weights.view(torch.int32)[1, 500] ^= 1
    assert weight_hash(weights)[1] != found[1]
    assert weight_hash(weights.double())[0] != weight_hash(weights.double())[1]


def test_a_hash_sees_the_order_and_spreads():
    tokens = torch.tensor([[1, 2, 3], [3, 2, 1]])
    assert len(set(hashed(tokens).tolist())) == 2
    rows = torch.randint(64, (2000, 128), generator=torch.Generator().manual_seed(0))
    assert len(set(hashed(rows).tolist())) >= 1999  # two alike are to be expected in one of eight such draws

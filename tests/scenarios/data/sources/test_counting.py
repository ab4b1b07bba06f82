"""Counting rows: successors in the upper half of the table, slips as often as said, exact entropy."""

import math

import numpy as np
import pytest

from trainwreck.kernels.random import generator
from trainwreck.scenarios.data.batch import from_rows
from trainwreck.scenarios.data.counting import counting


def rows(slip=0.05, count=400, table=64):
    return counting(generator(3, "counting"), count, 32, table, slip)


@pytest.mark.parametrize("table", [16, 64, 63])
def test_tokens_are_of_the_upper_half(table):
    tokens = rows(table=table).tokens
    assert tokens.shape == (400, 33)
    assert tokens.dtype == np.int64
    assert set(np.unique(tokens)) == set(range(table // 2, table))


def test_without_slips_every_token_is_the_successor():
    tokens = rows(slip=1e-12).tokens - 32
    assert (np.diff(tokens, axis=1) % 32 == 1).all()


def test_slips_are_as_often_as_said():
    tokens = rows(slip=0.2).tokens
    share = (np.diff(tokens, axis=1) % 32 != 1).mean()
    assert share == pytest.approx(0.2 * 31 / 32, abs=0.01)  # one slip in 32 is the successor


def test_nats_are_the_exact_surprise():
    """H = -(1 - q) ln(1 - q) - q ln(slip / 32), with q = slip * 31 / 32."""
    sample = rows(slip=0.2)
    q = 0.2 * 31 / 32
    entropy = -(1 - q) * math.log(1 - q) - q * math.log(0.2 / 32)
    assert sample.nats[:, 1:].mean() == pytest.approx(entropy, rel=0.03)
    assert (sample.nats[:, 0] == 0).all()
    slipped = np.diff(sample.tokens, axis=1) % 32 != 1
    assert np.allclose(sample.nats[:, 1:][slipped], -math.log(0.2 / 32))


def test_a_batch_of_them_is_scored_everywhere():
    batch = from_rows(rows())
    assert (batch.weights == 1).all()
    assert (batch.documents == 0).all()
    assert np.array_equal(batch.inputs[:, 1:], batch.targets[:, :-1])

"""A stream key of 2**63 or more was rounded to a float with the seed, and neighbouring seeds shared draws."""

import pytest

from trainwreck.kernels.random import generator, stream_key


@pytest.mark.parametrize("stream", ["data", "dropout", "parameters", "validation"])
def test_neighbouring_large_seeds_differ(stream):
    draws = [generator(seed, stream).random(4).tolist() for seed in (2**53, 2**53 + 1)]
    assert draws[0] != draws[1]


def test_such_a_key_is_among_them():
    assert stream_key("data") >= 2**63

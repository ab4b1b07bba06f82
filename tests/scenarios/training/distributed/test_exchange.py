"""Which ranks get which rows."""

import dataclasses

import numpy as np

from trainwreck.scenarios.data.batches import training_block
from trainwreck.scenarios.spec.exchange import Exchange, square
from trainwreck.scenarios.spec.faults import Process


def test_the_ranks_share_the_batch(tiny):
    block = training_block(tiny, 3, range(2))
    exchange = Exchange.healthy(2)
    parts = [exchange.rows(block, rank) for rank in range(2)]
    for name in ("inputs", "targets", "weights", "documents"):
        whole = getattr(block, name)
        np.testing.assert_array_equal(getattr(parts[0], name), whole[:, 0::2])
        np.testing.assert_array_equal(getattr(parts[1], name), whole[:, 1::2])
        np.testing.assert_array_equal(getattr(exchange.every_row(block), name), whole[:, [0, 2, 1, 3]])
    scored = block.weights.sum(2)
    np.testing.assert_array_equal(exchange.tokens(block), [[s[0] + s[2], s[1] + s[3]] for s in scored])


def test_one_rank_is_fed_everything(tiny):
    block = training_block(tiny, 3, range(2))
    for part in (Exchange.healthy(1).rows(block, 0), Exchange.healthy(1).every_row(block)):
        assert all(np.array_equal(a, b) for a, b in zip(vars(part).values(), vars(block).values(), strict=True))


def test_ranks_that_read_the_first_s_share(tiny):
    block = training_block(tiny, 3, range(2))
    exchange = dataclasses.replace(Exchange.healthy(4), shards=(0, 0, 0, 0))
    np.testing.assert_array_equal(exchange.every_row(block).inputs, block.inputs[:, [0, 0, 0, 0]])


def test_who_hears_whom():
    healthy = Exchange.healthy(3)
    assert healthy.ranks == 3
    assert healthy.hears == ((True,) * 3,) * 3
    assert not healthy.is_late
    assert square(2, lambda receiver, sender: receiver == sender) == ((True, False), (False, True))
    assert dataclasses.replace(healthy, late=square(3, lambda r, q: (r, q) == (0, 2))).is_late


def test_a_process_fault_edits_the_exchange():
    fault = Process(lambda exchange: dataclasses.replace(exchange, summed=True, alone=True))
    broken = fault.exchange(Exchange.healthy(4))
    assert broken.summed
    assert dataclasses.replace(broken, summed=False, alone=False) == Exchange.healthy(4)

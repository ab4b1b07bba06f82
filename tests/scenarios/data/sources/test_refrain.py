"""Rows of a verse and its refrain: what they are made of, what is scored, and that nothing in it is open."""

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batch import from_rows
from trainwreck.scenarios.data.batches import entropy_floor, training_block
from trainwreck.scenarios.data.batches import validation as held_out
from trainwreck.scenarios.data.sources.refrain import TOKENS, VERSE, Refrain
from trainwreck.scenarios.data.sources.selection import end_token, source, source_key

SETUP = bases.refrain(healthy(Size.MICRO))
ROWS = Refrain(2).sample(5, "train", range(3), 200, 32)


def test_a_row_is_a_verse_in_the_order_and_its_refrain():
    order = Refrain(2).order
    assert sorted(order) == list(range(TOKENS))
    place = {token: i for i, token in enumerate(order.tolist())}
    begins = set()
    for tokens in ROWS.tokens.reshape(-1, 33).tolist():
        verse = tokens[:VERSE]
        first = place[verse[0]]
        assert verse == [order[(first + i) % TOKENS] for i in range(VERSE)]
        assert tokens == (verse * 5)[:33]
        begins.add(first)
    assert begins == set(range(TOKENS))
    assert ROWS.tokens.dtype == np.int64


def test_the_refrain_alone_is_scored_and_nothing_in_it_is_open():
    batch = from_rows(ROWS)
    assert (batch.weights == (np.arange(32) >= VERSE - 1)).all()
    assert not batch.documents.any()
    assert entropy_floor(SETUP) == 0.0


def test_rows_are_a_function_of_seed_stream_and_step():
    again = Refrain(2).sample(5, "train", range(1, 2), 200, 32)
    assert np.array_equal(again.tokens[0], ROWS.tokens[1])
    assert not np.array_equal(ROWS.tokens[0], ROWS.tokens[1])
    other = Refrain(3).sample(5, "train", range(1), 200, 32)
    assert not np.array_equal(other.tokens[0], ROWS.tokens[0])


def test_a_setup_has_them():
    assert source(source_key(SETUP.data)) == Refrain(0)
    assert end_token(SETUP.data) is None
    block = training_block(SETUP, 3, range(2))
    assert block.inputs.shape == (2, 8, 32)
    assert held_out(SETUP)[0].inputs.shape == (32, 32)
    assert block.inputs.max() < SETUP.model.vocab_size


def test_a_row_that_is_too_short_is_refused():
    with pytest.raises(InputError, match=r"^model\.context: 8 is not allowed with refrains; allowed: 16 or more$"):
        Refrain().sample(0, "train", range(1), 2, 8)
    with pytest.raises(InputError, match=r"model\.context"):
        training_block(replaced(SETUP, model__context=8), 0, range(1))

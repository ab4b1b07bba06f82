"""Exchanges about a store that changes: what they are made of, what is scored, and how the store changes."""

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batch import from_rows
from trainwreck.scenarios.data.batches import entropy_floor, training_block
from trainwreck.scenarios.data.batches import validation as held_out
from trainwreck.scenarios.data.sources.facts import CHANGED, FACTS, KEY, STRETCH, VALUE, VALUES, Facts
from trainwreck.scenarios.data.sources.selection import end_token, source, source_key

SETUP = bases.facts(healthy(Size.MICRO))
ROWS = Facts(2).sample(5, "train", range(8, 12), 60, 32)


def test_the_store_has_every_key_once_at_every_step():
    for step in (0, 95, 2000):
        store = Facts(2).store(step)
        assert store.shape == (FACTS, 4)
        assert sorted(store[:, 0]) == list(range(KEY, KEY + FACTS))
        assert store[:, 1:].min() >= VALUE
        assert store[:, 1:].max() < VALUE + VALUES


def test_so_many_slots_change_after_a_stretch_and_no_other_and_before_it_none():
    stores = [Facts(2).store(step) for step in range(4 * STRETCH)]
    for step in range(1, len(stores)):
        keys = stores[step][:, 0] != stores[step - 1][:, 0]
        values = (stores[step][:, 1:] != stores[step - 1][:, 1:]).any(1)
        assert keys.sum() == (CHANGED if step % STRETCH == 0 else 0)
        assert not (values & ~keys).any()


def test_the_store_of_a_step_does_not_hang_on_what_was_asked_before():
    late = Facts(9).store(700)
    Facts(9).store(3)
    assert np.array_equal(Facts(9).store(700), late)
    assert not np.array_equal(Facts(8).store(700), late)


def test_a_row_has_passages_names_and_the_answers_of_the_step():
    facts = Facts(2)
    for index, step in enumerate(range(8, 12)):
        passages = {int(passage[0]): passage[1:].tolist() for passage in facts.store(step)}
        for exchange in ROWS.tokens[index, :, :-1].reshape(-1, 8).tolist():
            key = int(facts.keys[exchange[4]])
            assert exchange == [key, *passages[key], exchange[4], *passages[key]]
    assert {int(name) for name in ROWS.tokens[..., 4:-1:8].ravel()} == set(range(FACTS))
    assert sorted(facts.keys) == list(range(KEY, KEY + FACTS))


def test_other_slots_are_other_passages_before_the_same_answers():
    facts, names = Facts(2), np.arange(FACTS)
    right = facts.filled(names, facts.right(names, 30), 30)
    wrong = facts.filled(names, (facts.right(names, 30) + 1) % FACTS, 30)
    assert np.array_equal(right[:, 4:], wrong[:, 4:])
    assert (right[:, 0] == facts.keys[names]).all()
    assert (wrong[:, 0] != facts.keys[names]).all()
    assert np.array_equal(right[:, 1:4], right[:, 5:])


def test_answers_alone_are_scored_and_nothing_in_them_is_open():
    batch = from_rows(ROWS)
    assert (batch.weights == np.tile([0, 0, 0, 0, 1, 1, 1, 0], 4)).all()
    assert (batch.documents == np.repeat(range(4), 8)).all()
    assert entropy_floor(SETUP) == 0.0


def test_rows_are_a_function_of_seed_stream_and_step():
    again = Facts(2).sample(5, "train", range(9, 10), 60, 32)
    assert np.array_equal(again.tokens[0], ROWS.tokens[1])
    assert not np.array_equal(ROWS.tokens[0], ROWS.tokens[1])


def test_a_setup_has_them():
    assert source(source_key(SETUP.data)) == Facts(0)
    assert end_token(SETUP.data) is None
    block = training_block(SETUP, 3, range(2))
    assert block.inputs.shape == (2, 8, 32)
    assert held_out(SETUP)[0].inputs.max() < SETUP.model.vocab_size


def test_a_row_that_would_end_within_an_exchange_is_refused():
    with pytest.raises(InputError, match=r"^model\.context: 28 is not allowed with facts; allowed: multiples of 8$"):
        Facts().sample(0, "train", range(1), 2, 28)
    with pytest.raises(InputError, match=r"model\.context"):
        training_block(replaced(SETUP, model__context=28), 0, range(1))

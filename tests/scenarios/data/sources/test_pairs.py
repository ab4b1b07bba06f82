"""Text in two forms of words, and pairs of answers: what they are made of, what is scored and known."""

import math

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batch import from_rows
from trainwreck.scenarios.data.batches import entropy_floor, fresh, training_block, validation
from trainwreck.scenarios.data.sources.pairs import COARSE, GIVEN, WORDS, Pairs
from trainwreck.scenarios.data.sources.selection import end_token, source, source_key

SETUP = bases.preferences(healthy(Size.MICRO))
TEXT = Pairs(2).sample(5, "train", range(3), 200, 16)
ROWS = Pairs(2).pairs(5, "train", range(3), 200, 16)


def test_words_follow_the_order_in_either_form():
    order = Pairs(2).order
    assert sorted(order) == list(range(WORDS))
    follows = dict(zip(order.tolist(), np.roll(order, -1).tolist(), strict=True))
    for rows in (TEXT, ROWS):
        words = rows.tokens % WORDS
        assert rows.tokens.max() == 2 * WORDS - 1
        assert (np.vectorize(follows.get)(words[..., :-1]) == words[..., 1:]).all()
        assert set(words[..., 0].ravel()) == set(range(WORDS))
        assert rows.tokens.dtype == np.int64


def test_text_is_coarse_as_often_as_it_says_whatever_stands_before():
    coarse = TEXT.tokens >= WORDS
    assert coarse.mean() == pytest.approx(COARSE, abs=0.02)
    assert coarse[..., 1:][coarse[..., :-1]].mean() == pytest.approx(COARSE, abs=0.02)
    nats = np.where(coarse, -math.log(COARSE), -math.log(1 - COARSE))
    assert np.allclose(TEXT.nats[..., GIVEN:], nats[..., GIVEN:])
    assert not TEXT.nats[..., :GIVEN].any()


def test_a_right_answer_is_plain_and_a_wrong_one_to_the_same_prompt_is_not():
    right, wrong = ROWS.tokens[:, ::2], ROWS.tokens[:, 1::2]
    assert (right % WORDS == wrong % WORDS).all()
    assert (right[..., :GIVEN] == wrong[..., :GIVEN]).all()
    assert (right[..., :GIVEN] >= WORDS).mean() == pytest.approx(COARSE, abs=0.05)
    assert (right[..., GIVEN:] < WORDS).all()
    count = (wrong[..., GIVEN:] >= WORDS).sum(-1)
    assert count.min() >= 1
    one = 1 / (17 - GIVEN)  # of the places is coarse in any case
    assert count.mean() * one == pytest.approx(COARSE * (1 - one) + one, abs=0.02)
    assert not ROWS.nats.any()


def test_answers_alone_are_scored():
    for rows in (TEXT, ROWS):
        batch = from_rows(rows)
        assert (batch.weights == (np.arange(1, 17) >= GIVEN)).all()
        assert not batch.documents.any()


def test_rows_are_a_function_of_seed_stream_and_step():
    again = Pairs(2).pairs(5, "train", range(1, 2), 200, 16)
    assert np.array_equal(again.tokens[0], ROWS.tokens[1])
    assert not np.array_equal(ROWS.tokens[0], ROWS.tokens[1])
    other = Pairs(3).pairs(5, "train", range(1), 200, 16)
    assert not np.array_equal(other.tokens[0], ROWS.tokens[0])


def test_a_setup_has_text_until_pairs_begin_and_held_out_pairs_throughout():
    assert source(source_key(SETUP.data)) == Pairs(0)
    assert end_token(SETUP.data) is None
    text = training_block(SETUP, 3, range(2))
    pairs = training_block(replaced(SETUP, preferences__begun=True), 3, range(2))
    assert text.inputs.shape == pairs.inputs.shape == (2, 16, 16)
    assert (text.targets[:, ::2, GIVEN:] >= WORDS).any()
    assert (pairs.targets[:, ::2, GIVEN:] < WORDS).all()
    for batch in (validation(SETUP)[0], fresh(SETUP)):
        assert batch.inputs.shape == (64, 16)
        assert (batch.targets[::2, GIVEN:] < WORDS).all()
        assert (batch.targets[1::2, GIVEN - 1 :] >= WORDS).any(1).all()
    assert pairs.inputs.max() < SETUP.model.vocab_size
    assert entropy_floor(SETUP) == 0.0


def test_what_holds_no_pairs_is_refused():
    with pytest.raises(InputError, match=r"^model\.context: 3 is not allowed with pairs; allowed: 4 or more$"):
        Pairs().sample(0, "train", range(1), 2, 3)
    with pytest.raises(InputError, match=r"^rows: 3 is not allowed for pairs of answers; allowed: even numbers$"):
        Pairs().pairs(0, "train", range(1), 3, 16)

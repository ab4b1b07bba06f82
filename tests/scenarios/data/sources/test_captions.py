"""Pictures with captions: what they are made of, and that their exact probabilities are those of how they are made."""

import math

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batch import from_rows
from trainwreck.scenarios.data.batches import entropy_floor, training_block
from trainwreck.scenarios.data.batches import validation as held_out
from trainwreck.scenarios.data.sources.captions import (
    COLOURS,
    END,
    EXAMPLE,
    OBJECT,
    PATCHES,
    PICTURE,
    PLACES,
    SHAPES,
    START,
    TONES,
    Captions,
)
from trainwreck.scenarios.data.sources.selection import end_token, source, source_key

SETUP = bases.captions(healthy(Size.MICRO))
ROWS = Captions(2).sample(5, "train", range(3), 400, 32)
EXAMPLES = ROWS.tokens[..., :-1].reshape(-1, EXAMPLE)


def test_a_caption_says_what_is_on_its_picture():
    colours, shapes = (found.tolist() for found in Captions(2).words)
    seen = set()
    for tokens in EXAMPLES.tolist():
        picture, caption = tokens[:PATCHES], tokens[PATCHES:]
        (place,) = [i for i, token in enumerate(picture) if token >= OBJECT]
        (colour,) = {token // TONES for token in picture if token < OBJECT}
        shape = picture[place] - OBJECT
        assert caption == [START, colours[colour], shapes[shape], END]
        seen.add((colour, shape, place))
    assert seen == {(c, s, p) for c in range(COLOURS) for s in range(SHAPES) for p in PLACES.tolist()}
    assert not set(colours) & set(shapes)
    assert min(colours + shapes) > END >= PICTURE


def test_the_nats_are_those_of_the_frequencies():
    """Of each patch after what can be known of the ones before: the colour, and whether there was an object."""
    nats = ROWS.nats[..., :-1].reshape(-1, EXAMPLE)
    assert (nats[:, PATCHES:] == 0).all()
    assert (nats[:, 0] == 0).all()
    kinds = np.where(EXAMPLES >= OBJECT, EXAMPLES, EXAMPLES % TONES)  # the colour is known from the first patch
    checked = 0
    for at in range(1, PATCHES):
        before = (EXAMPLES[:, :at] >= OBJECT).any(1)
        for had in set(before.tolist()):
            rows, known = kinds[before == had, at], nats[before == had, at]
            for kind in set(rows.tolist()):
                one = known[rows == kind]
                assert one == pytest.approx(one[0])
                assert math.exp(-one[0]) == pytest.approx((rows == kind).mean(), abs=0.06)
                checked += 1
    assert checked > 3 * PATCHES


def test_floors_are_of_both_and_of_each():
    batch = from_rows(ROWS)
    picture = (batch.targets < PICTURE) & (batch.weights > 0)
    caption = (batch.targets >= PICTURE) & (batch.weights > 0)
    each = ((PATCHES - 2) * math.log(TONES) + math.log(len(PLACES)) + math.log(SHAPES)) / (PATCHES - 1)
    assert ROWS.nats[..., 1:][picture].mean() == pytest.approx(each, abs=1e-9)
    assert ROWS.nats[..., 1:][caption].mean() == 0
    assert picture.sum() * (EXAMPLE - PATCHES) == caption.sum() * (PATCHES - 1)
    assert entropy_floor(SETUP) == pytest.approx(each * (PATCHES - 1) / (EXAMPLE - 1), abs=1e-6)


def test_all_is_scored_but_the_first_patch():
    batch = from_rows(ROWS)
    assert (batch.weights == (np.arange(32) % EXAMPLE < EXAMPLE - 1)).all()
    assert (batch.documents == np.arange(32) // EXAMPLE).all()


def test_rows_are_a_function_of_seed_stream_and_step():
    again = Captions(2).sample(5, "train", range(1, 2), 400, 32)
    assert np.array_equal(again.tokens[0], ROWS.tokens[1])
    assert not np.array_equal(ROWS.tokens[0], ROWS.tokens[1])
    other = Captions(3).sample(5, "train", range(1), 400, 32)
    assert np.array_equal(other.tokens[0] < PICTURE, ROWS.tokens[0] < PICTURE)
    assert not np.array_equal(other.tokens[0], ROWS.tokens[0])  # other words for the same pictures


def test_a_setup_has_them():
    assert source(source_key(SETUP.data)) == Captions(0)
    assert end_token(SETUP.data) is None
    assert training_block(SETUP, 3, range(2)).inputs.shape == (2, 16, 32)
    assert held_out(SETUP)[0].inputs.max() == Captions().vocabulary - 1 < SETUP.model.vocab_size


def test_a_row_that_ends_within_an_example_is_refused():
    with pytest.raises(
        InputError, match=r"^model\.context: 24 is not allowed with captions; allowed: multiples of 16$"
    ):
        Captions().sample(0, "train", range(1), 2, 24)
    with pytest.raises(InputError, match=r"model\.context"):
        training_block(replaced(SETUP, model__context=40), 0, range(1))

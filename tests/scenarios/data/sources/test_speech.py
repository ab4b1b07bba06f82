"""Utterances and their transcripts: what they are made of, what is scored, and that the frames say it all."""

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.catalogue.data.speech_noisy_transcripts import Rows
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Dialect, SourceKind, replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batch import from_rows
from trainwreck.scenarios.data.batches import entropy_floor, training_block
from trainwreck.scenarios.data.batches import validation as held_out
from trainwreck.scenarios.data.sources.selection import end_token, source, source_key
from trainwreck.scenarios.data.sources.speech import SHORTEST, SOUNDS, START, WORDS, Speech
from trainwreck.scenarios.spec.registry import scenario

SETUP = bases.speech(healthy(Size.MICRO))
ROWS = Speech(2).sample(5, "train", range(3), 200, 32)


def test_frames_are_units_of_the_words_in_their_order():
    word_of = {unit: word for word, units in enumerate(Speech(2).units.tolist()) for unit in units}
    assert len(word_of) == WORDS * SOUNDS
    lengths, sounds = set(), set()
    for tokens in ROWS.tokens.reshape(-1, 33).tolist():
        frames, start, spoken = tokens[:22], tokens[22], tokens[23:]
        assert start == START
        assert len(set(spoken)) == 10
        sounding = [word_of[unit] for unit in frames]
        assert [word for i, word in enumerate(sounding) if i == 0 or word != sounding[i - 1]] == spoken
        lengths |= {sounding.count(word) for word in spoken}
        sounds |= set(frames)
    assert lengths == {SHORTEST, SHORTEST + 1, SHORTEST + 2}
    assert sounds == set(word_of)


def test_the_transcript_alone_is_scored_and_nothing_in_it_is_open():
    batch = from_rows(ROWS)
    assert (batch.weights == (np.arange(32) >= 22)).all()
    assert not batch.documents.any()
    assert entropy_floor(SETUP) == 0.0


def test_rows_are_a_function_of_seed_stream_and_step():
    again = Speech(2).sample(5, "train", range(1, 2), 200, 32)
    assert np.array_equal(again.tokens[0], ROWS.tokens[1])
    assert not np.array_equal(ROWS.tokens[0], ROWS.tokens[1])
    other = Speech(3).sample(5, "train", range(1), 200, 32)
    assert not np.array_equal(other.tokens[0, :, :22], ROWS.tokens[0, :, :22])


def test_a_setup_has_them():
    assert source(source_key(SETUP.data)) == Speech(0)
    assert end_token(SETUP.data) is None
    assert training_block(SETUP, 3, range(2)).inputs.shape == (2, 16, 32)
    assert held_out(SETUP)[0].inputs.max() == START < SETUP.model.vocab_size


def test_a_row_that_holds_no_utterance_is_refused():
    for context in (2, 64):
        with pytest.raises(
            InputError, match=rf"^model\.context: {context} is not allowed with speech; allowed: 3 to 62$"
        ):
            Speech().sample(0, "train", range(1), 2, context)
    with pytest.raises(InputError, match=r"model\.context"):
        training_block(replaced(SETUP, model__context=64), 0, range(1))


def test_a_wrong_transcript_is_read_and_scored_as_it_is_elsewhere_and_frames_stay():
    entry = scenario("speech_noisy_transcripts")
    (change,) = entry.fault(Rows(rows=0.5), SETUP)
    batch = from_rows(ROWS).at(0)
    made = change.transform(batch, 0, np.random.default_rng(1))
    wrong = (made.targets != batch.targets).any(1)
    assert wrong[0]
    assert 60 < wrong.sum() < 140
    words = slice(22, None)  # targets that are words
    assert np.array_equal(made.targets[wrong][:, words], np.roll(batch.targets, 1, 0)[wrong][:, words])
    assert np.array_equal(made.inputs[:, :23], batch.inputs[:, :23])
    assert np.array_equal(made.inputs[:, 23:], made.targets[:, 22:-1])
    assert np.array_equal(made.targets[~wrong], batch.targets[~wrong])
    assert np.array_equal(made.weights, batch.weights)


@pytest.mark.parametrize("data", [{"data__dialect": Dialect.CHAT}, {"data__source": SourceKind.TEXT}])
def test_a_fault_of_transcripts_needs_speech(data):
    with pytest.raises(
        InputError, match=r"^data\.dialect: .* is not allowed for speech_noisy_transcripts; allowed: speech"
    ):
        scenario("speech_noisy_transcripts").fault(Rows(), replaced(SETUP, **data))

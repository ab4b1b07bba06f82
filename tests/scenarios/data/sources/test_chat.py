"""Rows of a prompt, its answer and an end: what they are made of, what is scored, and what it costs at least."""

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.catalogue import requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Dialect, replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batch import from_rows
from trainwreck.scenarios.data.batches import entropy_floor, training_block, validation
from trainwreck.scenarios.data.sources.chat import PROMPT, ROW, SHORTEST, Chat, Part
from trainwreck.scenarios.data.sources.selection import end_token, source
from trainwreck.scenarios.spec.job import Job

CHAT = Chat()
SETUP = bases.chat(healthy(Size.MICRO))
ROWS = CHAT.sample(5, "train", range(3), 400, 32)
BATCH = from_rows(ROWS)


def exchange(tokens):
    """Prompt, answer and what comes after the end, by the tokens alone."""
    prompt, rest = tokens[:PROMPT].tolist(), tokens[PROMPT + 1 :].tolist()
    assert tokens[PROMPT] == CHAT.turn
    end = rest.index(CHAT.end)
    return prompt, rest[:end], rest[end + 1 :]


def test_a_row_is_a_prompt_a_turn_an_answer_an_end_and_padding():
    lengths = set()
    for tokens in ROWS.tokens.reshape(-1, 33):
        prompt, answer, after = exchange(tokens)
        assert prompt.count(CHAT.stop) == 1
        assert len(answer) == prompt.index(CHAT.stop)
        assert set(after) == {CHAT.pad}
        text = [token for token in prompt if token != CHAT.stop] + answer
        assert 0 <= min(text) <= max(text) < CHAT.language.spec.content
        lengths.add(len(answer))
    assert lengths == set(range(SHORTEST, PROMPT))
    assert {CHAT.stop, CHAT.turn, CHAT.end, CHAT.pad} == set(range(60, 64))


def test_an_answer_repeats_the_prompt_but_for_the_noise():
    pairs = [exchange(tokens)[:2] for tokens in ROWS.tokens.reshape(-1, 33)]
    same = np.array([a == b for prompt, answer in pairs for a, b in zip(prompt, answer, strict=False)])
    chance = 0.95 + 0.05 / CHAT.language.spec.content
    assert abs(same.mean() - chance) < 4 * np.sqrt(chance * (1 - chance) / len(same))


def test_answer_and_end_are_scored_and_nothing_else():
    for tokens, targets, weights, documents in zip(
        *(part.reshape(-1, part.shape[-1]) for part in (ROWS.tokens, BATCH.targets, BATCH.weights, BATCH.documents)),
        strict=True,
    ):
        _, answer, after = exchange(tokens)
        scored = np.flatnonzero(weights)
        assert scored.tolist() == list(range(PROMPT, PROMPT + len(answer) + 1))
        assert targets[scored].tolist() == [*answer, CHAT.end]
        assert (documents == -1).tolist() == [False] * (32 - len(after[:-1])) + [True] * len(after[:-1])
    assert set(np.unique(BATCH.weights)) == {0.0, 1.0}


def test_nats_are_those_of_noise_and_of_a_certain_end():
    chosen = np.exp(-ROWS.nats)
    answer, right = ROWS.structure == Part.ANSWER, 0.95 + 0.05 / 28
    assert set(np.round(chosen[answer], 9)) == {round(right, 9), round(0.05 / 28, 9)}
    assert (chosen[ROWS.structure == Part.END] == 1.0).all()
    noise = -(right * np.log(right) + 27 * 0.05 / 28 * np.log(0.05 / 28))
    batch, _ = validation(replaced(SETUP, evaluation__rows=4000))
    share = 1 - (batch.targets[batch.weights > 0] == CHAT.end).mean()
    assert entropy_floor(replaced(SETUP, evaluation__rows=4000)) == pytest.approx(share * noise, rel=0.05)


def test_rows_are_a_function_of_seed_stream_and_step():
    block = CHAT.sample(5, "train", range(2, 4), 400, 32)
    np.testing.assert_array_equal(block.tokens[0], ROWS.tokens[2])
    again = Job("r", 5, SETUP).batches(range(7, 9))  # as a run has them that goes on at step 7
    whole = training_block(SETUP, 5, range(10))
    for name, part in vars(again).items():
        np.testing.assert_array_equal(part, getattr(whole, name)[7:9])
    for other in (CHAT.sample(6, "train", range(3), 400, 32), Chat(1).sample(5, "train", range(3), 400, 32)):
        assert (other.tokens != ROWS.tokens).any()


def test_a_setup_names_the_source_and_its_end():
    assert source((SETUP.data.source, Dialect.CHAT, 4, "")) == Chat(4)
    assert end_token(SETUP.data) == CHAT.end
    assert end_token(replaced(SETUP, data__dialect=Dialect.CHAIN).data) is None
    assert requirements.chat(SETUP) == CHAT
    with pytest.raises(InputError, match="allowed: chat"):
        requirements.chat(bases.chain(healthy(Size.MICRO)))


def test_a_row_too_short_for_an_exchange_is_refused():
    assert CHAT.sample(0, "train", range(1), 2, ROW).tokens.shape == (1, 2, ROW + 1)
    with pytest.raises(InputError, match="24 is not allowed with exchanges; allowed: 25 or more"):
        CHAT.sample(0, "train", range(1), 2, ROW - 1)

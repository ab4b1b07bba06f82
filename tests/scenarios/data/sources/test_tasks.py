"""Prompts and answers with a known true reward, and the reward model that is learned from comparisons of them."""

import math

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batch import from_rows
from trainwreck.scenarios.data.batches import entropy_floor, fresh, training_block, validation
from trainwreck.scenarios.data.reward import CONTEXT, RIDGE, SHARPNESS, learned
from trainwreck.scenarios.data.sources.selection import end_token, source, source_key
from trainwreck.scenarios.data.sources.tasks import (
    COST,
    END,
    ENDS,
    GIVEN,
    LEVEL,
    LEVELS,
    OWN,
    SHORTEST,
    TOPIC,
    TOPICS,
    WORDS,
    Tasks,
    counts,
    lengths,
)

SETUP = bases.policy(healthy(Size.MICRO))
TASKS = Tasks(2)
ROWS = TASKS.sample(5, "train", range(3), 2000, 16)


def answer(*words):
    """Row of topic 1: these words, then ends."""
    return np.array([TOPIC + 1, LEVEL, *words] + [END] * (15 - len(words)))


def test_each_topic_has_words_of_its_own():
    assert sorted(TASKS.own.ravel()) == list(range(WORDS))
    assert (TASKS.right.sum(1) == OWN).all()
    assert not TASKS.right[:, WORDS:].any()
    assert not np.array_equal(TASKS.own, Tasks(3).own)


def test_answers_have_own_words_as_often_as_the_level_says():
    tokens = ROWS.tokens
    assert tokens.max() == END
    assert tokens.dtype == np.int64
    assert set(tokens[..., 0].ravel()) == set(range(TOPIC, TOPIC + TOPICS))
    for level, share in enumerate(LEVELS):
        of = tokens[tokens[..., 1] == LEVEL + level]
        words = of[:, GIVEN : GIVEN + SHORTEST]
        right = TASKS.right[of[:, :1] - TOPIC, words].mean()
        assert right == pytest.approx(share + (1 - share) * OWN / WORDS, abs=0.03)
    ended = (tokens[..., GIVEN:] == END).any(-1).mean()
    assert ended == pytest.approx(1 - (1 - ENDS) ** 13, abs=0.01)
    assert (tokens[..., GIVEN : GIVEN + SHORTEST] < WORDS).all()
    length = lengths(tokens)
    assert (length == SHORTEST).mean() == pytest.approx(ENDS, abs=0.02)


def test_an_answer_and_its_end_are_scored_and_their_nats_are_exact():
    batch = from_rows(ROWS)
    ends = np.minimum(lengths(ROWS.tokens) + 1, 15)
    assert (batch.weights.sum(-1) == ends).all()
    assert not batch.weights[..., : GIVEN - 1].any()
    row = ROWS.tokens[0, 0]
    share, right = LEVELS[row[1] - LEVEL], TASKS.right[row[0] - TOPIC]
    for place in range(GIVEN, 17):
        nats = ROWS.nats[0, 0, place]
        if place >= GIVEN + ends[0, 0]:
            assert nats == 0
            continue
        goes_on = 1.0 if place < GIVEN + SHORTEST else 1 - ENDS
        word = share / OWN * right[row[place]] + (1 - share) / WORDS
        assert nats == pytest.approx(-math.log(ENDS if row[place] == END else goes_on * word))


def test_the_true_reward_counts_each_own_word_once_and_everything_else_against_it():
    own, other = TASKS.own[1], TASKS.own[2]
    cases = {
        1.0: answer(*own),
        3 / OWN: answer(*own[:3]),
        (2 - COST) / OWN: answer(own[0], own[1], own[0]),
        (2 - 2 * COST) / OWN: answer(own[0], other[0], own[1], other[0]),
        0.0: answer(*[own[0]] * 15),
    }
    for wanted, row in cases.items():
        assert TASKS.true_reward(row) == pytest.approx(wanted)
        assert lengths(row) == (row[GIVEN:] != END).sum()
    assert TASKS.true_reward(answer()) == 0
    assert counts(answer(*own[:3]))[END] == 1
    beyond = answer(*own[:3])
    beyond[GIVEN + 4 :] = own[4]  # after the end
    assert (counts(beyond) == counts(answer(*own[:3]))).all()
    assert TASKS.true_reward(beyond) == pytest.approx(3 / OWN)
    assert counts(answer(*[own[0]] * 15))[[own[0], END]].tolist() == [15, 0]


def test_rows_are_a_function_of_seed_stream_and_step_and_of_one_prompt_a_group():
    again = TASKS.sample(5, "train", range(1, 2), 2000, 16)
    assert np.array_equal(again.tokens[0], ROWS.tokens[1])
    assert not np.array_equal(ROWS.tokens[0], ROWS.tokens[1])
    rows = TASKS.sample(5, "train", range(2), 24, 16, group=8).tokens.reshape(2, 3, 8, 17)
    assert (rows[..., :GIVEN] == rows[:, :, :1, :GIVEN]).all()
    assert not (rows[..., GIVEN:] == rows[:, :, :1, GIVEN:]).all()


def test_a_setup_has_text_until_rewards_begin_and_the_same_held_out_prompts_throughout():
    assert source(source_key(SETUP.data)) == Tasks(0)
    assert end_token(SETUP.data) is None
    text = training_block(SETUP, 3, range(2))
    begun = training_block(replaced(SETUP, policy__begun=True), 3, range(2))
    assert text.inputs.shape == begun.inputs.shape == (2, 64, 16)
    prompts = begun.inputs[..., :GIVEN].reshape(2, 8, 8, GIVEN)
    assert (prompts == prompts[:, :, :1]).all()
    assert np.array_equal(validation(SETUP)[0].inputs, validation(replaced(SETUP, policy__begun=True))[0].inputs)
    assert not np.array_equal(validation(SETUP)[0].inputs, fresh(SETUP).inputs)
    assert entropy_floor(SETUP) == 0.0


def test_weights_of_the_reward_model_are_the_most_likely_ones():
    rows = TASKS.sample(9, "comparisons", range(1), 800, CONTEXT, group=2).tokens[0]
    found = learned(TASKS, 9, 400, 0.0)
    rewards = found.reward(rows)
    assert rewards.mean() == pytest.approx(0, abs=1e-9)
    assert rewards.std() == pytest.approx(1)
    assert learned(TASKS, 9, 400, 0.0) is found

    def grow(w, scale):
        """Gradient of the log-likelihood and the prior with labels as they were drawn, by a loop over comparisons."""
        from trainwreck.kernels.random import generator

        draws, total = generator(9, "comparisons/labels").random(400), -RIDGE * w
        for first, second, draw in zip(rows[::2], rows[1::2], draws, strict=True):
            odds = SHARPNESS * (TASKS.true_reward(first) - TASKS.true_reward(second))
            sign = 1 if draw < 1 / (1 + math.exp(-odds)) else -1
            apart, topic = sign * (counts(first) - counts(second)), first[0] - TOPIC
            total[topic] += apart / (1 + math.exp(w[topic] @ apart))
        return total

    scales = np.linspace(0.1, 6, 60)  # the one that the standard deviation was divided by
    at_best = min(np.abs(grow(found.weight * s, s)).max() for s in scales)
    assert at_best < 0.1 * np.abs(grow(found.weight * 0, 1)).max()


def test_more_comparisons_rank_better_and_a_bias_likes_length():
    rows = TASKS.sample(1, "other", range(1), 4000, 16, group=2).tokens[0]
    true = TASKS.true_reward(rows)
    apart = true[::2] != true[1::2]

    def ranked(model):
        rewards = model.reward(rows)
        return ((rewards[::2] > rewards[1::2]) == (true[::2] > true[1::2]))[apart].mean()

    good, poor = learned(TASKS, 4, 20000, 0.0), learned(TASKS, 4, 60, 0.0)
    assert ranked(good) > 0.77
    assert ranked(good) > ranked(poor) + 0.05
    biased = learned(TASKS, 4, 20000, 2.0)
    assert np.corrcoef(biased.reward(rows), lengths(rows))[0, 1] > np.corrcoef(good.reward(rows), lengths(rows))[0, 1]


def test_it_is_wrong_about_words_that_are_repeated():
    own = TASKS.own[1]
    good = learned(TASKS, 4, 20000, 0.0)
    every, again = answer(*own), answer(*[own[0]] * 15)
    assert good.reward(again) > good.reward(every)
    assert TASKS.true_reward(again) < TASKS.true_reward(every)


def test_a_context_without_room_for_an_answer_is_refused():
    with pytest.raises(InputError, match=r"^model\.context: 3 is not allowed with tasks; allowed: 4 or more$"):
        Tasks().sample(0, "train", range(1), 2, 3)

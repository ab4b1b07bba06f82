"""Tasks: a prompt names a topic and a level, and the answer is to name the topic's words, each once.

    prompt  TOPIC LEVEL    answer  w3 w17 w4 w3 END END END ...

A topic has OWN words of its own. A token of a text's answer is one of them as often as the level says, and else a word
of any topic; the answer ends after each token alike often, or at the row's end. So answers are of mixed quality, and
prompts of one level have more of it than those of another.

The true reward of an answer is known exactly: for each of the topic's words, once, 1 / OWN; for every other token but
the end, a repeated word as well as a wrong one, COST / OWN less; and never below 0. The most is 1: every word, once.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import generator
from trainwreck.scenarios.data.sources.chat import Part
from trainwreck.scenarios.data.sources.language import Rows

TOPICS, OWN = 6, 5  # topics, and words of each
LEVELS = (0.35, 0.5, 0.65)  # share of a topic's own words in a text's answers
WORDS = TOPICS * OWN
TOPIC, LEVEL, END = WORDS, WORDS + TOPICS, WORDS + TOPICS + len(LEVELS)  # first ids; the end's
GIVEN = 2  # tokens of a prompt
SHORTEST, ENDS = 2, 0.2  # tokens of a text's answer; chance of the end after each further one
COST = 0.25  # of a token that earns nothing, in words


@dataclass(frozen=True)
class Tasks:
    """Samples prompts with answers of mixed quality. seed: of which words are whose."""

    seed: int = 0

    @cached_property
    def own(self) -> np.ndarray:
        """The words of each topic, int64 [TOPICS, OWN]; no word is in two."""
        return generator(self.seed, "language/topics").permutation(WORDS).reshape(TOPICS, OWN).astype(np.int64)

    @cached_property
    def right(self) -> np.ndarray:
        """Whether a token [END + 1] is one of a topic's words, bool [TOPICS, END + 1]."""
        found = np.zeros((TOPICS, END + 1), bool)
        np.put_along_axis(found, self.own, True, 1)
        return found

    @property
    def vocabulary(self) -> int:
        """Number of token ids that rows are made of."""
        return END + 1

    def sample(self, seed: int, stream: str, steps: range, rows: int, context: int, group: int = 1) -> Rows:
        """Rows for a range of steps, each array [S, B, T + 1], of one prompt and answer each; ends up to the row's end.

        group: rows in a row that have one prompt. InputError for a context that holds no answer.
        """
        if context < GIVEN + SHORTEST:
            least = GIVEN + SHORTEST
            raise InputError(f"model.context: {context} is not allowed with tasks; allowed: {least} or more")
        count = context + 1 - GIVEN
        given = np.stack([generator(seed, f"{stream}/prompts", s).random((rows // group, 1, 2)) for s in steps])
        given = np.repeat(given, group, 1)
        draws = np.stack([generator(seed, f"{stream}/answers", s).random((rows, count, 4)) for s in steps])
        topic, level = (given[..., 0] * TOPICS).astype(np.int64), (given[..., 1] * len(LEVELS)).astype(np.int64)
        good = draws[..., 0] < np.array(LEVELS)[level]
        words = np.where(
            good, self.own[topic, (draws[..., 1] * OWN).astype(np.int64)], (draws[..., 2] * WORDS).astype(np.int64)
        )
        ends = (draws[..., 3] < ENDS) & (np.arange(count) >= SHORTEST)
        ended = ends.cumsum(-1) > 0
        beyond = np.concatenate((np.zeros_like(ended[..., :1]), ended[..., :-1]), -1)
        tokens = np.concatenate((TOPIC + topic, LEVEL + level, np.where(ended, END, words)), -1)
        structure = np.full(tokens.shape, Part.PROMPT, np.int8)
        structure[..., GIVEN:] = np.select([beyond, ended], [Part.PADDING, Part.END], Part.ANSWER)
        share = np.array(LEVELS)[level]
        chance = (1 - share) / WORDS + share / OWN * self.right[topic, tokens[..., GIVEN:]]
        chance = np.where(ended, ENDS, chance * np.where(np.arange(count) >= SHORTEST, 1 - ENDS, 1.0))
        nats = np.zeros(tokens.shape)
        nats[..., GIVEN:] = np.where(beyond, 0.0, -np.log(chance))
        return Rows(tokens, np.zeros_like(tokens), nats, structure)

    def true_reward(self, tokens: np.ndarray) -> np.ndarray:
        """The true reward of rows [..., T + 1], from 0 to 1."""
        named = counts(tokens)[..., :WORDS]
        own = self.right[tokens[..., 0] - TOPIC][..., :WORDS]
        distinct = ((named > 0) & own).sum(-1)
        earned: np.ndarray = np.clip((distinct - COST * (lengths(tokens) - distinct)) / OWN, 0.0, 1.0)
        return earned


def counts(tokens: np.ndarray) -> np.ndarray:
    """How often each token is in the answer of rows [..., T + 1], its end once: [..., END + 1]."""
    answer = tokens[..., GIVEN:]
    end = answer == END
    within = end.cumsum(-1) - end == 0
    found: np.ndarray = ((answer[..., None] == np.arange(END + 1)) & within[..., None]).sum(-2)
    return found


def lengths(tokens: np.ndarray) -> np.ndarray:
    """Tokens of the answers of rows [..., T + 1], without the end."""
    answer = tokens[..., GIVEN:]
    found: np.ndarray = ((answer == END).cumsum(-1) == 0).sum(-1)
    return found

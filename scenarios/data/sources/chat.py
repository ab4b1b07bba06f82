"""Exchanges as fine-tuning has them: a row is a prompt, a turn, the answer to it and its end; then padding.

    w3 w9 w7 w2 STOP w5 w1 w8 w4 w6 w0 w2 TURN w3 w9 w7 w2 END pad pad ...
    `------------- prompt -------------'       `- answer -'

The prompt is text of the chain dialect with one stop in it, the answer repeats the text before the stop, and the end
comes where the prompt has its stop. So each token of an answer depends on the prompt, at one distance: what is asked
for lies as many tokens back as the prompt is long. Tokens of the answer are replaced by a random content token five
times in a hundred; the end never is.

Answer and end alone are scored. Their exact probabilities are known; the prompt counts as given.
"""

import dataclasses
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import generator
from trainwreck.scenarios.data.sources.language import Language, Rows, chain

PROMPT = 12  # tokens of a prompt
SHORTEST = 3  # tokens of an answer, without its end
ROW = PROMPT + 1 + PROMPT  # of the longest exchange: prompt, turn, an answer of all but the stop, end


class Part(IntEnum):
    """What a token of an exchange is: the numbers after those of `language.Structure`."""

    PROMPT = 7
    ANSWER = 8
    END = 9
    PADDING = 10


@dataclass(frozen=True)
class Chat:
    """Samples exchanges and scores them exactly. seed: of the language that prompts are made of."""

    seed: int = 0

    @cached_property
    def language(self) -> Language:
        """The language of prompts: the chain dialect in documents of a prompt's length."""
        return Language(dataclasses.replace(chain(self.seed), shortest=PROMPT, longest=PROMPT))

    @property
    def stop(self) -> int:
        """Id of the token in a prompt before which the answer's text ends."""
        return self.language.vocabulary

    @property
    def turn(self) -> int:
        """Id of the token between prompt and answer."""
        return self.stop + 1

    @property
    def end(self) -> int:
        """Id of the token that ends an answer."""
        return self.stop + 2

    @property
    def pad(self) -> int:
        """Id of padding: the first one that no exchange has."""
        return self.vocabulary

    @property
    def vocabulary(self) -> int:
        """Number of token ids that exchanges are made of."""
        return self.stop + 3

    def sample(self, seed: int, stream: str, steps: range, rows: int, context: int) -> Rows:
        """Rows for a range of steps, each array [S, B, T + 1], of one exchange each; documents: 0, and -1 for padding.

        InputError for a context that does not hold the longest exchange.
        """
        if context < ROW:
            raise InputError(f"model.context: {context} is not allowed with exchanges; allowed: {ROW} or more")
        s = self.language.spec
        prompt = self.language.sample(seed, stream, steps, rows, PROMPT - 1).tokens
        draws = np.stack([generator(seed, f"{stream}/answers", step).random((rows, PROMPT, 3)) for step in steps])
        length = SHORTEST + (draws[..., :1, 2] * (PROMPT - SHORTEST)).astype(np.int64)  # of each answer, [S, B, 1]
        place = np.arange(PROMPT)
        answer = np.where(draws[..., 0] < s.noise, (draws[..., 1] * s.content).astype(np.int64), prompt)
        nats = -np.log(s.noise / s.content + (1 - s.noise) * (answer == prompt))
        shape = (len(steps), rows, context + 1)
        tokens, structure = np.full(shape, self.pad), np.full(shape, Part.PADDING, np.int8)
        found = np.zeros(shape)
        tokens[..., :PROMPT] = np.where(place == length, self.stop, prompt)
        tokens[..., PROMPT] = self.turn
        structure[..., : PROMPT + 1] = Part.PROMPT
        within = slice(PROMPT + 1, PROMPT + 1 + PROMPT)
        tokens[..., within] = np.select([place < length, place == length], [answer, self.end], self.pad)
        structure[..., within] = np.select([place < length, place == length], [Part.ANSWER, Part.END], Part.PADDING)
        found[..., within] = np.where(place < length, nats, 0.0)
        documents = np.where(structure == Part.PADDING, -1, 0)
        return Rows(tokens, documents, found, structure)

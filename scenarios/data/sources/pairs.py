"""Pairs of answers to one prompt, of which the first is right: every word of it is plain.

    order   k c a h v d ... (of all words, round and round); each word has a plain form k and a coarse one K
    text    C a h | V d M B x e ...    prompt and answer follow the order; each token is in either form
    right   C a h | v d m b x e ...    every token of the answer is plain
    wrong   C a h | v D m B X e ...    the same words, at least one of them coarse

What text says of a token's form is known exactly: COARSE of its tokens are coarse, whatever stands before. So a right
answer has -ln(1 - COARSE) nats a token by a model of text, and 0 by one that keeps to what is preferred. As two forms
stand in the same places, a model has them close to each other. Answers alone are scored.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import generator
from trainwreck.scenarios.data.sources.chat import Part
from trainwreck.scenarios.data.sources.language import Rows

WORDS = 30  # in the order; a coarse form has the id of the plain one and as many more
GIVEN = 4  # tokens of a prompt
COARSE = 0.4  # share of coarse tokens in text and in wrong answers


@dataclass(frozen=True)
class Pairs:
    """Samples text, and pairs of answers. seed: of the order of words."""

    seed: int = 0

    @cached_property
    def order(self) -> np.ndarray:
        """Which word follows which, int64 [WORDS]."""
        return generator(self.seed, "language/order").permutation(WORDS).astype(np.int64)

    @property
    def vocabulary(self) -> int:
        """Number of token ids that rows are made of."""
        return 2 * WORDS

    def sample(self, seed: int, stream: str, steps: range, rows: int, context: int) -> Rows:
        """Rows of text for a range of steps, each array [S, B, T + 1], of one document each.

        InputError for a context that holds no answer.
        """
        words, coarse = self._drawn(seed, stream, steps, rows, context)
        answer = np.arange(context + 1) >= GIVEN
        nats = np.where(answer, -np.log(np.where(coarse, COARSE, 1 - COARSE)), 0.0)
        return self._rows(words, coarse, nats)

    def pairs(self, seed: int, stream: str, steps: range, rows: int, context: int) -> Rows:
        """The same with a right answer in each even row, and in the row after it a wrong one to the same prompt.

        The nats are those of answers that keep to what is preferred: 0. InputError for an odd number of rows.
        """
        if rows % 2:
            raise InputError(f"rows: {rows} is not allowed for pairs of answers; allowed: even numbers")
        words, coarse = self._drawn(seed, f"{stream}/pairs", steps, rows // 2, context)
        last = [generator(seed, f"{stream}/pairs/one", s).integers(GIVEN, context + 1, (rows // 2, 1)) for s in steps]
        place = np.arange(context + 1)
        wrong = coarse | (place == np.stack(last))
        both = np.stack((coarse & (place < GIVEN), wrong), 2)
        shape = (len(steps), rows, context + 1)
        return self._rows(np.repeat(words, 2, 1), both.reshape(shape), np.zeros(shape))

    def _drawn(self, seed: int, stream: str, steps: range, rows: int, context: int) -> tuple[np.ndarray, np.ndarray]:
        """Words and whether each is coarse, [S, B, T + 1]."""
        if context < GIVEN:
            raise InputError(f"model.context: {context} is not allowed with pairs; allowed: {GIVEN} or more")
        begin = np.stack([generator(seed, f"{stream}/begin", s).integers(WORDS, size=(rows, 1)) for s in steps])
        coarse = np.stack([generator(seed, f"{stream}/forms", s).random((rows, context + 1)) < COARSE for s in steps])
        return self.order[(begin + np.arange(context + 1)) % WORDS], coarse

    @staticmethod
    def _rows(words: np.ndarray, coarse: np.ndarray, nats: np.ndarray) -> Rows:
        structure = np.zeros(words.shape, np.int8)
        structure[:] = np.where(np.arange(words.shape[-1]) < GIVEN, Part.PROMPT, Part.ANSWER)
        return Rows(words + WORDS * coarse, np.zeros_like(words), nats, structure)

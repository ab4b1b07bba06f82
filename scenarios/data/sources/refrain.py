"""Refrains: a row is a verse, and the verse again and again to the row's end.

    order  k c a h v d m b ... (of all tokens, round and round)
    verse  a h v d m b x e    refrain  a h v d m b x e  a h v d m b x e ...

A verse begins anywhere in a fixed order of all tokens and follows it. So a token of the refrain can be told in two
ways: as the one after the token before it, but at a verse's end, or as that at its place in the verse. Where a token
before is wrong the second way alone is right. The refrain alone is scored; nothing in it is open: its entropy is 0.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import generator
from trainwreck.scenarios.data.sources.chat import Part
from trainwreck.scenarios.data.sources.language import Rows

VERSE = 8  # tokens of a verse
TOKENS = 60  # in the order


@dataclass(frozen=True)
class Refrain:
    """Samples verses with their refrains. seed: of the order of tokens."""

    seed: int = 0

    @cached_property
    def order(self) -> np.ndarray:
        """Which token follows which, int64 [TOKENS]."""
        return generator(self.seed, "language/order").permutation(TOKENS).astype(np.int64)

    @property
    def vocabulary(self) -> int:
        """Number of token ids that rows are made of."""
        return TOKENS

    def sample(self, seed: int, stream: str, steps: range, rows: int, context: int) -> Rows:
        """Rows for a range of steps, each array [S, B, T + 1], of one document each.

        InputError for a context that does not hold verse and refrain.
        """
        if context < 2 * VERSE:
            raise InputError(f"model.context: {context} is not allowed with refrains; allowed: {2 * VERSE} or more")
        place = np.arange(context + 1)
        begin = np.stack([generator(seed, f"{stream}/verses", step).integers(TOKENS, size=(rows, 1)) for step in steps])
        tokens = self.order[(begin + place % VERSE) % TOKENS]
        structure = np.zeros(tokens.shape, np.int8)
        structure[:] = np.where(place < VERSE, Part.PROMPT, Part.ANSWER)
        return Rows(tokens, np.zeros_like(tokens), np.zeros(tokens.shape), structure)

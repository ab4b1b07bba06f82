"""Questions about facts, each after a passage that may answer it; the facts change while a run trains.

    passage  K7 v3 v9 v1    question  N4    answer  v3 v9 v1        (N4 asks for K7)

A fact is a key and a value of three tokens. Each lies in a slot of a store. Every STRETCH steps a quarter of the slots
gets other facts: their keys change places, and their values are redrawn. A question names a fact by a word of its
own, and which key a name asks for never changes. The right passage has the answer. Without it a value can be known only
from before, while it holds.

Rows are made with the right passages. The answer alone is scored; after the right passage its entropy is 0.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import generator
from trainwreck.scenarios.data.sources.chat import Part
from trainwreck.scenarios.data.sources.language import Rows

FACTS, VALUES = 16, 28  # facts, slots of the store, names and keys; tokens that values are made of
LENGTH = 3  # tokens of a value
PASSAGE = 1 + LENGTH
QUESTION = PASSAGE  # place of the name in an exchange
EXCHANGE = 2 * PASSAGE  # tokens of passage, question and answer
STRETCH, CHANGED = 10, 4  # steps that the store stays the same, and slots that change then
NAME, KEY, VALUE = 0, FACTS, 2 * FACTS  # first ids


@dataclass(frozen=True)
class Facts:
    """Samples exchanges about a store. seed: of the store, its changes, and which key a name asks for."""

    seed: int = 0

    @cached_property
    def keys(self) -> np.ndarray:
        """Id of the key that each name asks for, int64 [FACTS]."""
        return KEY + generator(self.seed, "language/keys").permutation(FACTS).astype(np.int64)

    @property
    def vocabulary(self) -> int:
        """Number of token ids that rows are made of."""
        return VALUE + VALUES

    def store(self, step: int) -> np.ndarray:
        """The passage of each slot at a step, int64 [FACTS, PASSAGE]."""
        stores = _stores(self.seed)
        while len(stores) <= step // STRETCH:
            draw, store = generator(self.seed, "store", len(stores)), stores[-1].copy()
            slots = draw.permutation(FACTS)[:CHANGED]
            store[slots, 0] = store[np.roll(slots, 1), 0]
            store[slots, 1:] = VALUE + draw.integers(VALUES, size=(CHANGED, LENGTH))
            stores.append(store)
        return stores[step // STRETCH]

    def right(self, names: np.ndarray, step: int) -> np.ndarray:
        """The slot that answers each name at a step, int64 of the names' shape."""
        slots: np.ndarray = np.argsort(self.store(step)[:, 0])[self.keys[names] - KEY]
        return slots

    def filled(self, names: np.ndarray, slots: np.ndarray, step: int) -> np.ndarray:
        """Exchanges [..., EXCHANGE] of these names: the passages of the slots, and the right answers at a step."""
        store = self.store(step)
        answers = store[self.right(names, step)][..., 1:]
        return np.concatenate((store[slots], names[..., None], answers), -1)

    def sample(self, seed: int, stream: str, steps: range, rows: int, context: int) -> Rows:
        """Rows for a range of steps, each array [S, B, T + 1], of one document an exchange.

        InputError for a context that does not end with an exchange.
        """
        if context % EXCHANGE:
            raise InputError(f"model.context: {context} is not allowed with facts; allowed: multiples of {EXCHANGE}")
        count = context // EXCHANGE
        tokens = np.zeros((len(steps), rows, context + 1), np.int64)  # the last is nobody's target
        for index, step in enumerate(steps):
            names = generator(seed, f"{stream}/names", step).integers(FACTS, size=(rows, count))
            tokens[index, :, :-1] = self.filled(names, self.right(names, step), step).reshape(rows, context)
        place = np.arange(context + 1)
        documents = np.broadcast_to(place // EXCHANGE, tokens.shape)
        structure = np.zeros(tokens.shape, np.int8)
        structure[:] = np.where(place % EXCHANGE > QUESTION, Part.ANSWER, Part.PROMPT)
        return Rows(tokens, documents, np.zeros(tokens.shape), structure)


@lru_cache(maxsize=64)
def _stores(seed: int) -> list[np.ndarray]:
    """The store of each stretch of steps that was asked for."""
    draw = generator(seed, "store", 0)
    keys = KEY + draw.permutation(FACTS)
    return [np.concatenate((keys[:, None], VALUE + draw.integers(VALUES, size=(FACTS, LENGTH))), 1)]

"""Pictures with captions: patches of a picture as tokens, and then words that say what is on it.

    p4 p5 p4 p5 p4 o2 p4 p5 p4 p4 p5 p4  START  colour-2 shape-2  END      again and again

A picture is a strip of patches of one colour, each in either of two tones, with one object in one of four places. Its
tokens and the words are the two modalities. All of it is scored but the first patch, and its exact probabilities are
known: of a patch half a chance for its tone, and each place left is as likely to have the object. The words are certain
once the picture is known.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import generator
from trainwreck.scenarios.data.sources.language import Rows

PATCHES, COLOURS, SHAPES = 12, 4, 4  # patches of a picture; kinds of what it shows
TONES = 2  # of a colour
OBJECT = COLOURS * TONES  # first id of an object; patches of the background come before
PICTURE = OBJECT + SHAPES  # ids below it are of pictures
START, END = PICTURE, PICTURE + 1
COLOUR, SHAPE = END + 1, END + 1 + COLOURS  # first ids of words
PLACES = np.arange(2, PATCHES, 3)  # patches that may be the object; none is the first
EXAMPLE = PATCHES + 4  # tokens of a picture and its caption


@dataclass(frozen=True)
class Captions:
    """Samples pictures with captions and scores them exactly. seed: of which words name which colours and shapes."""

    seed: int = 0

    @cached_property
    def words(self) -> tuple[np.ndarray, np.ndarray]:
        """Id of the word for each colour and for each shape, int64 [COLOURS] and [SHAPES]."""
        draw = generator(self.seed, "language/words")
        return COLOUR + draw.permutation(COLOURS), SHAPE + draw.permutation(SHAPES)

    @property
    def vocabulary(self) -> int:
        """Number of token ids that rows are made of."""
        return SHAPE + SHAPES

    def sample(self, seed: int, stream: str, steps: range, rows: int, context: int) -> Rows:
        """Rows for a range of steps, each array [S, B, T + 1], of one document a picture with its caption.

        InputError for a context that does not end with a caption.
        """
        if context % EXAMPLE:
            raise InputError(f"model.context: {context} is not allowed with captions; allowed: multiples of {EXAMPLE}")
        count = context // EXAMPLE
        tokens = np.zeros((len(steps), rows, context + 1), np.int64)  # the last is nobody's target
        nats = np.zeros(tokens.shape)
        for index, step in enumerate(steps):
            draw = generator(seed, f"{stream}/pictures", step)
            colour, shape, place = (draw.integers(n, size=(rows, count)) for n in (COLOURS, SHAPES, len(PLACES)))
            picture = TONES * colour[..., None] + draw.integers(TONES, size=(rows, count, PATCHES))
            at_place = np.arange(PATCHES) == PLACES[place][..., None]
            picture = np.where(at_place, OBJECT + shape[..., None], picture)
            fixed = (np.full_like(colour, START), self.words[0][colour], self.words[1][shape])
            caption = np.stack((*fixed, np.full_like(colour, END)), -1)
            tokens[index, :, :-1] = np.concatenate((picture, caption), -1).reshape(rows, context)
            known = _nats(place)
            nats[index, :, :-1] = np.concatenate((known, np.zeros(caption.shape)), -1).reshape(rows, context)
        documents = np.broadcast_to(np.arange(context + 1) // EXAMPLE, tokens.shape)
        return Rows(tokens, documents, nats, np.zeros(tokens.shape, np.int8))


def _nats(place: np.ndarray) -> np.ndarray:
    """-ln p of each patch of pictures with an object in these places [...], [..., PATCHES]; the first is given."""
    at = PLACES[place][..., None]
    left = len(PLACES) - np.searchsorted(PLACES, np.arange(PATCHES))  # places that may have it from a patch on
    may = np.isin(np.arange(PATCHES), PLACES) & (np.arange(PATCHES) <= at)  # a patch that may be the object
    found = np.arange(PATCHES) == at
    nats = np.full(found.shape, math.log(TONES)) + np.where(may & ~found, -np.log1p(-1 / np.maximum(left, 2)), 0.0)
    nats = np.where(found, np.log(np.maximum(left, 1)) + math.log(SHAPES), nats)
    nats[..., 0] = 0.0
    return nats

"""Utterances: frames of speech as units of sound, and then the transcript.

    u4 u5 u31 u30 u31 u8 u8 ...  START  w2 w15 w4 ...      (w2 sounds as u4 or u5, w15 as u30 or u31)

Each word of the transcript sounds for two frames or some more, in either of two units of its own; no word comes twice
in an utterance. So the transcript is certain once the frames are known. It alone is scored.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import generator
from trainwreck.scenarios.data.sources.chat import Part
from trainwreck.scenarios.data.sources.language import Rows

WORDS, SOUNDS = 20, 2  # words, and units that each sounds as
START = WORDS * (1 + SOUNDS)  # id before a transcript; words come first, then units
SHORTEST = 2  # frames of a word


@dataclass(frozen=True)
class Speech:
    """Samples utterances with their transcripts. seed: of which units a word sounds as."""

    seed: int = 0

    @cached_property
    def units(self) -> np.ndarray:
        """Ids of the units of each word, int64 [WORDS, SOUNDS]."""
        order = generator(self.seed, "language/units").permutation(WORDS * SOUNDS)
        return WORDS + order.reshape(WORDS, SOUNDS).astype(np.int64)

    @property
    def vocabulary(self) -> int:
        """Number of token ids that rows are made of."""
        return START + 1

    def sample(self, seed: int, stream: str, steps: range, rows: int, context: int) -> Rows:
        """Rows for a range of steps, each array [S, B, T + 1], of one document each.

        InputError for a context that holds no utterance.
        """
        words = context // 3
        if not 1 <= words <= WORDS:
            raise InputError(f"model.context: {context} is not allowed with speech; allowed: 3 to {3 * WORDS + 2}")
        frames = context - words
        tokens = np.zeros((len(steps), rows, context + 1), np.int64)
        for index, step in enumerate(steps):
            draw = generator(seed, f"{stream}/utterances", step)
            spoken = draw.permuted(np.tile(np.arange(WORDS), (rows, 1)), axis=1)[:, :words]
            least = np.tile(np.repeat(np.arange(words), SHORTEST), (rows, 1))
            longer = draw.integers(words, size=(rows, frames - least.shape[1]))  # which words, a frame each time
            place = np.sort(np.concatenate((least, longer), 1), axis=1)
            sounding = np.take_along_axis(spoken, place, 1)
            tokens[index, :, :frames] = self.units[sounding, draw.integers(SOUNDS, size=sounding.shape)]
            tokens[index, :, frames] = START
            tokens[index, :, frames + 1 :] = spoken
        structure = np.zeros(tokens.shape, np.int8)
        structure[:] = np.where(np.arange(context + 1) > frames, Part.ANSWER, Part.PROMPT)
        return Rows(tokens, np.zeros_like(tokens), np.zeros(tokens.shape), structure)

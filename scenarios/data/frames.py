"""Acoustic features of the frames of an utterance: what `data.speech` has as units of sound, as vectors.

Frame t is the mean of its unit, a drawn vector, plus COARTICULATION times what lies half-way between the means of its
neighbours, plus noise. Means are a standard normal draw, so that two units lie about sqrt(2 C) apart: at the noise of a
healthy run each frame tells its unit.

Shapes: N runs, B rows, S frames, C features, G units.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from trainwreck.kernels.random import generator, sent
from trainwreck.models import gpt
from trainwreck.scenarios.data.sources.speech import SOUNDS, START, WORDS, Speech

COARTICULATION = 0.3


def frames_of(context: int) -> int:
    """How many positions of a row are frames; those after them are the transcript's."""
    return context - context // 3


def emitted(ids_NBS: Tensor, means_NGC: Tensor, noise_NBSC: Tensor) -> Tensor:
    """Features of the frames of these ids, [N, B, S, C]; an id that is no unit's sounds as the nearest one.

    noise: as it is added.
    """
    n, b, s = ids_NBS.shape
    units = (ids_NBS - WORDS).clamp(0, WORDS * SOUNDS - 1)
    own = gpt.embed(means_NGC, units.flatten(1)).view(n, b, s, -1)
    before, after = (torch.cat((own[:, :, :1], own[:, :, :-1]), 2), torch.cat((own[:, :, 1:], own[:, :, -1:]), 2))
    return own + COARTICULATION * (before + after) / 2 + noise_NBSC


def drawn_noise(seed: int, step: int, shape: tuple[int, int, int]) -> np.ndarray:
    """Standard normal noise of a training batch, float32 [B, S, C]."""
    return generator(seed, "frames", step).standard_normal(shape, np.float32)


@lru_cache(maxsize=16)
def held_out_noise(seed: int, stream: str, shape: tuple[int, int, int]) -> np.ndarray:
    """Standard normal noise of the held-out rows of a language's seed, float32 [B, S, C]."""
    return generator(seed, f"{stream}/frames").standard_normal(shape, np.float32)


@lru_cache(maxsize=16)
def unit_means(seed: int, width: int) -> np.ndarray:
    """The mean of each unit, float32 [G, C]."""
    return generator(seed, "language/means").standard_normal((WORDS * SOUNDS, width), np.float32)


@lru_cache(maxsize=16)
def words_of_units(seed: int) -> np.ndarray:
    """The word that sounds as each unit, int64 [G]."""
    found = np.empty(START - WORDS, np.int64)
    found[Speech(seed).units - WORDS] = np.arange(WORDS)[:, None]
    return found


def of_runs(arrays: list[np.ndarray], like: Tensor) -> Tensor:
    """One array a run, [N, ...], on a device; numbers in the dtype of `like`."""
    found = sent(np.stack(arrays), like.device)
    return found.to(like.dtype) if found.is_floating_point() else found

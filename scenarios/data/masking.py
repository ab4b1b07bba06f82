"""Rows with tokens masked as a timestep says: the forward process of masked diffusion, and the weights of its loss.

    row    a h v d m b x e       t = 0.25    a h _ d m b _ e
    given  ^                     t = 0.75    a _ _ _ m _ _ _

A noise schedule says which share m(t) of a row's L tokens is masked at timestep t. The evidence bound of the row is
the integral over t of m'(t) / m(t) times the losses of the masked tokens (Sahoo et al. 2024, equation 10; Shi et al.
2024), so of m'(t) L times their mean. Here just ceil(m(t) L) tokens are masked and not each by chance, which leaves the
bound what it is and its estimate less noisy (the any-order form: Hoogeboom et al. 2022; Nie et al. 2025, equation 6).
With m(t) = t every number of masked tokens is as likely as any other, and a row's loss is their mean. The first token
of a document is given, as everywhere in the language.

Shapes: S steps, B rows, T positions.
"""

import numpy as np

from trainwreck.kernels.random import generator

SAMPLING_STEPS = 32  # of the reverse process: a token at each, in rows of as many


def timesteps(seed: int, step: int, rows: int) -> np.ndarray:
    """The timestep of each row of a step, from 0 to 1, [B]: spread evenly from one draw (Kingma et al. 2021)."""
    found: np.ndarray = (np.arange(rows) + generator(seed, "timesteps", step).random()) / rows
    return found


def scored(documents: np.ndarray) -> np.ndarray:
    """Tokens that may be masked: all but padding and the first of each document, bool [..., T]."""
    inner = np.zeros(documents.shape, bool)
    inner[..., 1:] = documents[..., 1:] == documents[..., :-1]
    return inner & (documents >= 0)


def masks(documents: np.ndarray, share: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Which tokens are masked, bool [..., B, T]: of each row's scored ones the share [..., B], at least one."""
    may = scored(documents)
    count = np.clip(np.ceil(share * may.sum(-1)), 1, None)
    order = np.where(may, draws, 2.0).argsort(-1, kind="stable").argsort(-1, kind="stable")
    masked: np.ndarray = may & (order < count[..., None])
    return masked


def weights(masked: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Weights of the tokens in a batch's loss, float32 [..., B, T]: of a row its factor, shared by its masked ones."""
    spread: np.ndarray = masked * (factor / np.maximum(masked.sum(-1), 1))[..., None]
    return spread.astype(np.float32)

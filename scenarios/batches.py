"""Batches of one run: what the model is fed at each step, and the held-out set."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from trainwreck.scenarios.settings import DataConfig, Setup, SourceKind
from trainwreck.scenarios.sources.language import Language, LanguageSpec, Rows
from trainwreck.scenarios.sources.text import Text, open_text


@dataclass(frozen=True)
class Batch:
    """Rows as the model gets them, each [..., B, T].

    inputs, targets: token ids, int64. weights: float32, 0 where a target is not scored.
    documents: int64, -1 for padding.
    """

    inputs: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    documents: np.ndarray

    def at(self, index: int) -> "Batch":
        """One step of a block of steps."""
        return Batch(self.inputs[index], self.targets[index], self.weights[index], self.documents[index])


def from_rows(rows: Rows) -> Batch:
    """Inputs and next-token targets; a document's first token is nobody's target."""
    return Batch(
        inputs=rows.tokens[..., :-1],
        targets=rows.tokens[..., 1:],
        weights=(rows.documents[..., 1:] == rows.documents[..., :-1]).astype(np.float32),
        documents=rows.documents[..., :-1],
    )


@lru_cache(maxsize=8)
def _language(seed: int) -> Language:
    return Language(LanguageSpec(seed=seed))


def source(data: DataConfig) -> Language | Text:
    """The source that a configuration names."""
    return open_text(data.text) if data.source is SourceKind.TEXT else _language(data.language_seed)


def training_block(setup: Setup, seed: int, steps: range) -> Batch:
    """Training batches of a range of steps, [S, B, T]; a pure function of setup, seed and steps."""
    data = setup.data
    return _block(data.source, data.language_seed, data.text, seed, steps, data.rows, setup.model.context)


# Runs of one seed share their batches, so a bundle of faulty, twin and cured samples them once.
@lru_cache(maxsize=64)
def _block(
    kind: SourceKind, language_seed: int, text: str, seed: int, steps: range, rows: int, context: int
) -> Batch:
    data = DataConfig(source=kind, language_seed=language_seed, text=text)
    return from_rows(source(data).sample(seed, "train", steps, rows, context))


@lru_cache(maxsize=16)
def held_out(
    kind: SourceKind, language_seed: int, text: str, rows: int, context: int
) -> tuple[Batch, Rows]:
    """The validation set, [B, T], the same for every run of a source, and the rows it came from."""
    data = DataConfig(source=kind, language_seed=language_seed, text=text)
    sampled = source(data).sample(language_seed, "validation", range(1), rows, context)
    return from_rows(sampled).at(0), sampled


def validation(setup: Setup) -> tuple[Batch, Rows]:
    """The validation set of a setup, with the exact nats of its tokens in the rows."""
    data = setup.data
    return held_out(data.source, data.language_seed, data.text, setup.evaluation.rows, setup.model.context)


def entropy_floor(setup: Setup) -> float:
    """Mean exact -ln p of the scored validation tokens, nats; NaN for text."""
    batch, rows = validation(setup)
    return float((rows.nats[0, :, 1:] * batch.weights).sum() / batch.weights.sum())

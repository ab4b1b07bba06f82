"""Rows as the model gets them, and what is done to them: cut, padded, repeated."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from trainwreck.scenarios.data.sources.chat import Part
from trainwreck.scenarios.data.sources.language import Rows

PADDING = 4  # positions of padding at the end of a row that has some
SHORT = 2  # tokens of a short row, of which one is a target


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

    def between(self, first: int, stop: int) -> "Batch":
        """Some steps of a block of steps, as a block."""
        part = slice(first, stop)
        return Batch(self.inputs[part], self.targets[part], self.weights[part], self.documents[part])


def from_rows(rows: Rows) -> Batch:
    """Inputs and next-token targets; a document's first token is nobody's target, nor are a prompt and padding."""
    scored = rows.documents[..., 1:] == rows.documents[..., :-1]
    if rows.structure.max(initial=0) >= Part.PROMPT:
        scored &= np.isin(rows.structure[..., 1:], (Part.ANSWER, Part.END))
    return Batch(
        inputs=rows.tokens[..., :-1],
        targets=rows.tokens[..., 1:],
        weights=scored.astype(np.float32),
        documents=rows.documents[..., :-1],
    )


def stacked(batches: Sequence[Batch]) -> Batch:
    """Batches of single steps as a block of steps, [S, B, T]."""
    names = (field.name for field in fields(Batch))
    return Batch(*(np.stack([getattr(batch, name) for batch in batches]) for name in names))


def taken(batch: Batch, index: np.ndarray) -> Batch:
    """Rows of a batch [R, T] by their index, [..., T]."""
    return Batch(batch.inputs[index], batch.targets[index], batch.weights[index], batch.documents[index])


def cut(batch: Batch, longest: int) -> Batch:
    """Rows cut to so many tokens, the rest padding: ids stay, no document, no weight."""
    beyond = np.arange(batch.inputs.shape[-1]) >= longest
    last = np.arange(batch.inputs.shape[-1]) >= longest - 1  # its target is beyond
    return Batch(
        inputs=batch.inputs,
        targets=batch.targets,
        weights=np.where(last, np.float32(0), batch.weights),
        documents=np.where(beyond, -1, batch.documents),
    )


def some_short(batch: Batch, every: int) -> Batch:
    """Rows of which the last of each `every` is cut to SHORT tokens, [..., B, T]."""
    short, last = cut(batch, SHORT), np.arange(batch.inputs.shape[-2]) % every == every - 1
    return replace(
        batch,
        weights=np.where(last[:, None], short.weights, batch.weights),
        documents=np.where(last[:, None], short.documents, batch.documents),
    )


def one_document(batch: Batch, pad: int) -> Batch:
    """Rows that end with their first document: after it padding, of id `pad`, unscored."""
    outside = batch.documents != batch.documents[..., :1]
    return Batch(
        inputs=np.where(outside, pad, batch.inputs),
        targets=np.where(outside | (batch.weights == 0), pad, batch.targets),
        weights=np.where(outside, np.float32(0), batch.weights),
        documents=np.where(outside, -1, batch.documents),
    )


def one_token(batch: Batch) -> Batch:
    """A batch [B, T] that repeats its first token, input and target throughout."""
    token = np.full_like(batch.inputs, batch.inputs[0, 0])
    return replace(batch, inputs=token, targets=token)


def end_padded(batch: Batch, pad: int) -> Batch:
    """A batch [B, T] whose first row ends in PADDING positions of id `pad`: neither scored nor attended to."""
    parts = {name: np.array(getattr(batch, name)) for name in ("inputs", "targets", "weights", "documents")}
    for name, value in (("inputs", pad), ("targets", pad), ("weights", 0.0), ("documents", -1)):
        parts[name][0, -PADDING:] = value
    parts["weights"][0, -PADDING - 1] = 0.0  # padding is nobody's target
    return replace(batch, **parts)

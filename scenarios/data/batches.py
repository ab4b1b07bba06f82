"""Batches of one run: the inputs and targets of each step, and the held-out set."""

from dataclasses import replace

import numpy as np

from trainwreck.kernels.random import generator
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data import shared_rows
from trainwreck.scenarios.data.batch import (
    Batch,
    cut,
    end_padded,
    from_rows,
    one_document,
    one_token,
    some_short,
    stacked,
    taken,
)
from trainwreck.scenarios.data.masking import masks, scored, timesteps, weights
from trainwreck.scenarios.data.sources.language import Language, Rows
from trainwreck.scenarios.data.sources.selection import source, source_key

ALIGNED_BLOCK = 50  # steps sampled at once for those who ask step by step


def training_block(setup: Setup, seed: int, steps: range) -> Batch:
    """Training batches of a range of steps, [S, B, T]; a pure function of setup, seed and steps."""
    data, key, context = setup.data, source_key(setup.data), setup.model.context
    if data.pool:
        index = epochs(seed, data.pool, steps.stop * data.rows)[steps.start * data.rows :]
        block = taken(shared_rows.pool_batch(key, seed, data.pool, context), index.reshape(len(steps), data.rows))
    elif setup.policy.begun:
        block = shared_rows.prompts(key, seed, steps, data.rows, context, setup.policy.group)
    else:
        rows_of = shared_rows.pairs if setup.preferences.begun else shared_rows.block
        block = rows_of(key, seed, steps, data.rows, context)
    if data.rare_words:
        block = with_rare_words(block, setup, seed, steps)
    if data.padded:
        block = one_document(block, source(key).vocabulary)
    block = cut(block, data.longest) if data.longest else block
    block = some_short(block, data.short_every) if data.short_every else block
    if data.one_token_every or data.padding_every:
        block = _some_odd(block, setup, seed, steps)
    return noised(block, setup, seed, steps) if setup.objective is ObjectiveKind.DIFFUSION else block


def training_batch(setup: Setup, seed: int, step: int) -> Batch:
    """The batch of one step, [B, T], out of an aligned block: for those who ask step by step."""
    start = step // ALIGNED_BLOCK * ALIGNED_BLOCK
    return training_block(setup, seed, range(start, start + ALIGNED_BLOCK)).at(step - start)


def with_rare_words(block: Batch, setup: Setup, seed: int, steps: range) -> Batch:
    """A block of steps [S, B, T] whose rows begin with pairs of a rare word, which is not scored, and a token."""
    rows, count = block.inputs.shape[1], setup.data.rare_words
    ids = source(source_key(setup.data)).vocabulary, setup.model.vocab_size
    words = [generator(seed, "data/rare_words", step).integers(*ids, (rows, count)) for step in steps]
    inputs, targets, weights = np.array(block.inputs), np.array(block.targets), np.array(block.weights)
    inputs[..., : 2 * count : 2] = np.stack(words)
    targets[..., :-1] = inputs[..., 1:]
    weights[..., 1 : 2 * count - 1 : 2] = 0.0
    return replace(block, inputs=inputs, targets=targets, weights=weights)


def _some_odd(block: Batch, setup: Setup, seed: int, steps: range) -> Batch:
    """A block of steps with some batches that repeat a token or end in padding, as the setup says."""
    data, batches = setup.data, []
    for place, step in enumerate(steps):
        batch = block.at(place)
        if drawn(seed, "one_token", step, data.one_token_every):
            batch = one_token(batch)
        if drawn(seed, "padding", step, data.padding_every):
            batch = end_padded(batch, setup.model.vocab_size - 1)
        batches.append(batch)
    return stacked(batches)


def drawn(seed: int, stream: str, step: int, every: int) -> bool:
    """Whether a step is the one drawn of its stretch of `every` steps; of 0 steps none is."""
    return every > 0 and int(generator(seed, f"data/{stream}", step // every).integers(every)) == step % every


def noised(block: Batch, setup: Setup, seed: int, steps: range) -> Batch:
    """A block of steps [S, B, T] with tokens masked as training has it: what is asked for is the tokens themselves."""
    rows = block.inputs.shape[1]
    times = np.stack([timesteps(seed, step, rows) for step in steps])
    draws = np.stack([generator(seed, "masks", step).random(block.inputs.shape[1:]) for step in steps])
    emphasis = setup.diffusion.emphasis
    return masked(block, setup, times, draws, (1 + emphasis) * times**emphasis)


def masked(batch: Batch, setup: Setup, share: np.ndarray, draws: np.ndarray, factor: np.ndarray) -> Batch:
    """Rows [..., B, T] of which a share of the tokens is masked. share, factor of a row in the loss: [..., B]."""
    hidden = masks(batch.documents, share, draws)
    return Batch(
        inputs=np.where(hidden, setup.model.vocab_size - 1, batch.inputs),
        targets=batch.inputs,
        weights=weights(hidden, factor),
        documents=batch.documents,
    )


def _evaluated(batch: Batch, setup: Setup, stream: str) -> Batch:
    """Held-out rows [B, T] as an objective has them: for diffusion masked, row after row at a later timestep."""
    if setup.objective is not ObjectiveKind.DIFFUSION:
        return batch
    rows = len(batch.inputs)
    draws = generator(setup.data.language_seed, f"{stream}/masks").random(batch.inputs.shape)
    return masked(batch, setup, (np.arange(rows) + 0.5) / rows, draws, np.ones(rows))


def refilled(batch: Batch, bad: np.ndarray, setup: Setup, draw: np.random.Generator) -> Batch:
    """A batch [B, T] whose rows that are bad, [B], have made way for further rows of the source."""
    shape = batch.inputs.shape
    stream = source(source_key(setup.data))
    sound = from_rows(stream.sample(int(draw.integers(2**62)), "refill", range(1), *shape)).at(0)
    return Batch(
        inputs=np.where(bad[:, None], sound.inputs, batch.inputs),
        targets=np.where(bad[:, None], sound.targets, batch.targets),
        weights=np.where(bad[:, None], sound.weights, batch.weights),
        documents=np.where(bad[:, None], sound.documents, batch.documents),
    )


def sample(language: Language, seed: int, stream: str, step: int, rows: int, context: int) -> Batch:
    """A batch of a stream of a language, [B, T]."""
    return from_rows(language.sample(seed, stream, range(step, step + 1), rows, context)).at(0)


def pool(setup: Setup, seed: int, rows: int) -> tuple[Batch, Rows]:
    """The rows that a run with a pool of so many has, [R, T], and the same [1, R, T + 1] with the exact nats."""
    key, context = source_key(setup.data), setup.model.context
    return shared_rows.pool_batch(key, seed, rows, context), shared_rows.pool_rows(key, seed, rows, context)


def epochs(seed: int, pool: int, count: int) -> np.ndarray:
    """The first `count` rows of epoch after epoch over a pool, each in an order of its own; int64."""
    orders = [generator(seed, "shuffle", e).permutation(pool) for e in range(-(-count // pool))]
    return np.concatenate(orders)[:count]


def validation(setup: Setup) -> tuple[Batch, Rows]:
    """The validation set of a setup, [B, T], and its rows [1, B, T + 1] with the exact nats.

    The same for every run of a source, whatever its seed.
    """
    data, key = setup.data, source_key(setup.data)
    batch, rows = shared_rows.held_out(key, setup.evaluation.rows, setup.model.context)
    batch = one_document(batch, source(key).vocabulary) if data.padded else batch
    return _evaluated(batch, setup, "validation"), rows


def fresh(setup: Setup) -> Batch:
    """A second held-out set, [B, T], as large as the first; the same for every run of a source."""
    return _evaluated(
        shared_rows.fresh(source_key(setup.data), setup.evaluation.rows, setup.model.context), setup, "fresh"
    )


def entropy_floor(setup: Setup) -> float:
    """Mean exact -ln p of the scored validation tokens, nats; NaN for text."""
    if setup.objective is ObjectiveKind.POLICY:
        return 0.0  # of 1 less the true reward
    batch, rows = validation(setup)
    if setup.objective is ObjectiveKind.DIFFUSION:  # what a row's own tokens cost in any order, the given ones aside
        return float(rows.nats[0, :, :-1][scored(batch.documents)].mean())
    return float((rows.nats[0, :, 1:] * batch.weights).sum() / batch.weights.sum())

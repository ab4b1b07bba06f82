"""Batches of one run: the inputs and targets of each step, and the held-out set."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from threading import Lock

import numpy as np

from trainwreck.kernels.random import generator
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import DataConfig, Dialect, Setup, SourceKind
from trainwreck.scenarios.data.answers.pairs import Pairs
from trainwreck.scenarios.data.answers.tasks import Tasks
from trainwreck.scenarios.data.captions import Captions
from trainwreck.scenarios.data.chat import Chat, Part
from trainwreck.scenarios.data.facts import Facts
from trainwreck.scenarios.data.language import Language, LanguageSpec, Rows, chain, echo, far_echo, recall, rules, walk
from trainwreck.scenarios.data.masking import masks, scored, timesteps, weights
from trainwreck.scenarios.data.refrain import Refrain
from trainwreck.scenarios.data.speech import Speech
from trainwreck.scenarios.data.text import Text, open_text

ALIGNED_BLOCK = 50  # steps sampled at once for those who ask step by step
TOGETHER = 8192  # rows of a language drawn at once: more no longer fit in a core's cache
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


def one_document(batch: Batch, pad: int) -> Batch:
    """Rows that end with their first document: after it padding, of id `pad`, unscored."""
    outside = batch.documents != batch.documents[..., :1]
    return Batch(
        inputs=np.where(outside, pad, batch.inputs),
        targets=np.where(outside | (batch.weights == 0), pad, batch.targets),
        weights=np.where(outside, np.float32(0), batch.weights),
        documents=np.where(outside, -1, batch.documents),
    )


# What a source is named by; runs that agree on it share a source.
SourceKey = tuple[SourceKind, Dialect, int, str]


def source_key(data: DataConfig) -> SourceKey:
    """The part of a configuration that names its source."""
    return data.source, data.dialect, data.language_seed, data.text


SPECS: dict[Dialect, Callable[[int], LanguageSpec]] = {
    Dialect.FULL: lambda seed: LanguageSpec(seed=seed),
    Dialect.CHAIN: chain,
    Dialect.ECHO: echo,
    Dialect.RECALL: recall,
    Dialect.FAR_ECHO: far_echo,
    Dialect.RULES: rules,
    Dialect.WALK: walk,
}


@lru_cache(maxsize=16)
def source(key: SourceKey) -> Language | Text | Chat | Refrain | Pairs | Facts | Speech | Captions | Tasks:
    """The source that a key names."""
    kind, dialect, seed, text = key
    if kind is SourceKind.TEXT:
        return open_text(text)
    if dialect is Dialect.CHAT:
        return Chat(seed)
    if dialect is Dialect.REFRAIN:
        return Refrain(seed)
    if dialect is Dialect.PAIRS:
        return Pairs(seed)
    if dialect is Dialect.FACTS:
        return Facts(seed)
    if dialect is Dialect.SPEECH:
        return Speech(seed)
    if dialect is Dialect.CAPTIONS:
        return Captions(seed)
    if dialect is Dialect.TASKS:
        return Tasks(seed)
    return Language(SPECS[dialect](seed))


def end_token(data: DataConfig) -> int | None:
    """The id of the token that ends an answer; None for data without answers."""
    found = source(source_key(data)) if data.dialect is Dialect.CHAT else None
    return found.end if isinstance(found, Chat) else None


def sample(language: Language, seed: int, stream: str, step: int, rows: int, context: int) -> Batch:
    """A batch of a stream of a language, [B, T]."""
    return from_rows(language.sample(seed, stream, range(step, step + 1), rows, context)).at(0)


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


def drawn(seed: int, stream: str, step: int, every: int) -> bool:
    """Whether a step is the one drawn of its stretch of `every` steps; of 0 steps none is."""
    return every > 0 and int(generator(seed, f"data/{stream}", step // every).integers(every)) == step % every


def stacked(batches: Sequence[Batch]) -> Batch:
    """Batches of single steps as a block of steps, [S, B, T]."""
    names = (field.name for field in fields(Batch))
    return Batch(*(np.stack([getattr(batch, name) for batch in batches]) for name in names))


def training_block(setup: Setup, seed: int, steps: range) -> Batch:
    """Training batches of a range of steps, [S, B, T]; a pure function of setup, seed and steps."""
    data, key, context = setup.data, source_key(setup.data), setup.model.context
    if data.pool:
        index = epochs(seed, data.pool, steps.stop * data.rows)[steps.start * data.rows :]
        block = taken(_pool(key, seed, data.pool, context), index.reshape(len(steps), data.rows))
    elif setup.policy.begun:
        block = _prompts(key, seed, steps, data.rows, context, setup.policy.group)
    else:
        block = (_pairs if setup.preferences.begun else _block)(key, seed, steps, data.rows, context)
    if data.rare_words:
        block = with_rare_words(block, setup, seed, steps)
    if data.padded:
        block = one_document(block, source(key).vocabulary)
    block = cut(block, data.longest) if data.longest else block
    block = some_short(block, data.short_every) if data.short_every else block
    if data.one_token_every or data.padding_every:
        block = _some_odd(block, setup, seed, steps)
    return noised(block, setup, seed, steps) if setup.objective is ObjectiveKind.DIFFUSION else block


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


def training_batch(setup: Setup, seed: int, step: int) -> Batch:
    """The batch of one step, [B, T], out of an aligned block: for those who ask step by step."""
    start = step // ALIGNED_BLOCK * ALIGNED_BLOCK
    return training_block(setup, seed, range(start, start + ALIGNED_BLOCK)).at(step - start)


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


def pool(setup: Setup, seed: int, rows: int) -> tuple[Batch, Rows]:
    """The rows that a run with a pool of so many has, [R, T], and the same [1, R, T + 1] with the exact nats."""
    key, context = source_key(setup.data), setup.model.context
    return _pool(key, seed, rows, context), _pool_rows(key, seed, rows, context)


def epochs(seed: int, pool: int, count: int) -> np.ndarray:
    """The first `count` rows of epoch after epoch over a pool, each in an order of its own; int64."""
    orders = [generator(seed, "shuffle", e).permutation(pool) for e in range(-(-count // pool))]
    return np.concatenate(orders)[:count]


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


# Runs of one seed share their batches, so a bundle of faulty, twin and cured samples them once.
_KEPT = 64
_blocks: OrderedDict[tuple[SourceKey, int, range, int, int], Batch] = OrderedDict()
_using = Lock()  # by whom inputs are sampled ahead


def _block(key: SourceKey, seed: int, steps: range, rows: int, context: int) -> Batch:
    found = _recalled((key, seed, steps, rows, context))
    if found is None:
        found = _kept((key, seed, steps, rows, context), source(key).sample(seed, "train", steps, rows, context))
    return found


def sample_together(wanted: Iterable[tuple[Setup, int, range]]) -> None:
    """Draw the rows of `training_block` at some setups, seeds and steps at once, where their source is a language."""
    missing: dict[tuple[SourceKey, int, int], dict[tuple[int, range], None]] = {}
    for setup, seed, steps in wanted:
        if sum(map(len, missing.values())) == _KEPT:
            break
        data, context = setup.data, setup.model.context
        if data.pool or setup.policy.begun or setup.preferences.begun:
            continue
        key = source_key(data)
        if isinstance(source(key), Language) and _recalled((key, seed, steps, data.rows, context)) is None:
            missing.setdefault((key, data.rows, context), {})[seed, steps] = None
    for (key, rows, context), found in missing.items():
        language, places = source(key), list(found)
        assert isinstance(language, Language)
        share = max(1, TOGETHER // (rows * max(len(steps) for _, steps in places)))
        for some in (places[i : i + share] for i in range(0, len(places), share)):
            drawn = language.sample_together(some, "train", rows, context)
            for (seed, steps), block in zip(some, drawn, strict=True):
                _kept((key, seed, steps, rows, context), block)


def _recalled(place: tuple[SourceKey, int, range, int, int]) -> Batch | None:
    with _using:
        if place in _blocks:
            _blocks.move_to_end(place)
        return _blocks.get(place)


def _kept(place: tuple[SourceKey, int, range, int, int], rows: Rows) -> Batch:
    batch = from_rows(rows)
    with _using:
        _blocks[place] = batch
        while len(_blocks) > _KEPT:
            _blocks.popitem(last=False)
    return batch


@lru_cache(maxsize=64)
def _pairs(key: SourceKey, seed: int, steps: range, rows: int, context: int) -> Batch:
    return from_rows(_paired(key, seed, "train", steps, rows, context))


@lru_cache(maxsize=64)
def _prompts(key: SourceKey, seed: int, steps: range, rows: int, context: int, group: int) -> Batch:
    """Each prompt in as many rows as a group has; what follows it is a text's answer, which nobody reads."""
    tasks = source(key)
    assert isinstance(tasks, Tasks), "settings allow no other source with this objective"
    return from_rows(tasks.sample(seed, "train/prompts", steps, rows, context, group))


def _paired(key: SourceKey, seed: int, stream: str, steps: range, rows: int, context: int) -> Rows:
    found = source(key)
    return (found.pairs if isinstance(found, Pairs) else found.sample)(seed, stream, steps, rows, context)


@lru_cache(maxsize=16)
def _pool_rows(key: SourceKey, seed: int, rows: int, context: int) -> Rows:
    return source(key).sample(seed, "pool", range(1), rows, context)


@lru_cache(maxsize=16)
def _pool(key: SourceKey, seed: int, rows: int, context: int) -> Batch:
    return from_rows(_pool_rows(key, seed, rows, context)).at(0)


@lru_cache(maxsize=16)
def _fresh(key: SourceKey, rows: int, context: int) -> Batch:
    return from_rows(_paired(key, key[2], "fresh", range(1), rows, context)).at(0)


@lru_cache(maxsize=16)
def _held_out(key: SourceKey, rows: int, context: int) -> tuple[Batch, Rows]:
    sampled = _paired(key, key[2], "validation", range(1), rows, context)
    return from_rows(sampled).at(0), sampled


def validation(setup: Setup) -> tuple[Batch, Rows]:
    """The validation set of a setup, [B, T], and its rows [1, B, T + 1] with the exact nats.

    The same for every run of a source, whatever its seed.
    """
    data, key = setup.data, source_key(setup.data)
    batch, rows = _held_out(key, setup.evaluation.rows, setup.model.context)
    batch = one_document(batch, source(key).vocabulary) if data.padded else batch
    return _evaluated(batch, setup, "validation"), rows


def fresh(setup: Setup) -> Batch:
    """A second held-out set, [B, T], as large as the first; the same for every run of a source."""
    return _evaluated(_fresh(source_key(setup.data), setup.evaluation.rows, setup.model.context), setup, "fresh")


def entropy_floor(setup: Setup) -> float:
    """Mean exact -ln p of the scored validation tokens, nats; NaN for text."""
    if setup.objective is ObjectiveKind.POLICY:
        return 0.0  # of 1 less the true reward
    batch, rows = validation(setup)
    if setup.objective is ObjectiveKind.DIFFUSION:  # what a row's own tokens cost in any order, the given ones aside
        return float(rows.nats[0, :, :-1][scored(batch.documents)].mean())
    return float((rows.nats[0, :, 1:] * batch.weights).sum() / batch.weights.sum())

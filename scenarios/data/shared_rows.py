"""Rows that are drawn once for all runs that share them, and kept for some time.

Runs of one seed share their batches, so a bundle of faulty, twin and cured draws them once. All runs of a source share
its held-out rows.
"""

from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from threading import Lock

from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch, from_rows
from trainwreck.scenarios.data.sources.language import Language, Rows
from trainwreck.scenarios.data.sources.pairs import Pairs
from trainwreck.scenarios.data.sources.selection import SourceKey, source, source_key
from trainwreck.scenarios.data.sources.tasks import Tasks

TOGETHER = 8192  # rows of a language drawn at once: more no longer fit in a core's cache
KEPT = 64  # blocks

Place = tuple[SourceKey, int, range, int, int]  # of a block: source, seed, steps, rows and context
_blocks: OrderedDict[Place, Batch] = OrderedDict()
_using = Lock()  # by whom inputs are sampled ahead


def block(key: SourceKey, seed: int, steps: range, rows: int, context: int) -> Batch:
    """Training rows of some steps, [S, B, T]."""
    found = _recalled((key, seed, steps, rows, context))
    if found is None:
        found = _kept((key, seed, steps, rows, context), source(key).sample(seed, "train", steps, rows, context))
    return found


def sample_together(wanted: Iterable[tuple[Setup, int, range]]) -> None:
    """Draw the rows of `training_block` at some setups, seeds and steps at once, where their source is a language."""
    missing: dict[tuple[SourceKey, int, int], dict[tuple[int, range], None]] = {}
    for setup, seed, steps in wanted:
        if sum(map(len, missing.values())) == KEPT:
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
            blocks = language.sample_together(some, "train", rows, context)
            for (seed, steps), drawn in zip(some, blocks, strict=True):
                _kept((key, seed, steps, rows, context), drawn)


def _recalled(place: Place) -> Batch | None:
    with _using:
        if place in _blocks:
            _blocks.move_to_end(place)
        return _blocks.get(place)


def _kept(place: Place, rows: Rows) -> Batch:
    batch = from_rows(rows)
    with _using:
        _blocks[place] = batch
        while len(_blocks) > KEPT:
            _blocks.popitem(last=False)
    return batch


@lru_cache(maxsize=64)
def pairs(key: SourceKey, seed: int, steps: range, rows: int, context: int) -> Batch:
    """The same as pairs of answers to one prompt, where the source has them."""
    return from_rows(_paired(key, seed, "train", steps, rows, context))


@lru_cache(maxsize=64)
def prompts(key: SourceKey, seed: int, steps: range, rows: int, context: int, group: int) -> Batch:
    """Each prompt in as many rows as a group has; what follows it is a text's answer, which nobody reads."""
    tasks = source(key)
    assert isinstance(tasks, Tasks), "settings allow no other source with this objective"
    return from_rows(tasks.sample(seed, "train/prompts", steps, rows, context, group))


def _paired(key: SourceKey, seed: int, stream: str, steps: range, rows: int, context: int) -> Rows:
    found = source(key)
    return (found.pairs if isinstance(found, Pairs) else found.sample)(seed, stream, steps, rows, context)


@lru_cache(maxsize=16)
def pool_rows(key: SourceKey, seed: int, rows: int, context: int) -> Rows:
    """The rows of a pool, [1, R, T + 1]."""
    return source(key).sample(seed, "pool", range(1), rows, context)


@lru_cache(maxsize=16)
def pool_batch(key: SourceKey, seed: int, rows: int, context: int) -> Batch:
    """The same as a batch, [R, T]."""
    return from_rows(pool_rows(key, seed, rows, context)).at(0)


@lru_cache(maxsize=16)
def fresh(key: SourceKey, rows: int, context: int) -> Batch:
    """A second set of held-out rows, [B, T]."""
    return from_rows(_paired(key, key[2], "fresh", range(1), rows, context)).at(0)


@lru_cache(maxsize=16)
def held_out(key: SourceKey, rows: int, context: int) -> tuple[Batch, Rows]:
    """The held-out rows, [B, T], and the same [1, B, T + 1] with the exact nats."""
    sampled = _paired(key, key[2], "validation", range(1), rows, context)
    return from_rows(sampled).at(0), sampled

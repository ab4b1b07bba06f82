"""Batches: next-token targets, weights, a function of seed and step alone; the held-out set."""

import numpy as np
import pytest
import torch

from trainwreck.models.parameters import layout
from trainwreck.scenarios.config.settings import Dialect, replaced
from trainwreck.scenarios.data import shared_rows
from trainwreck.scenarios.data.batch import Batch, from_rows
from trainwreck.scenarios.data.batches import training_block, validation
from trainwreck.scenarios.data.sources.language import Language
from trainwreck.scenarios.data.sources.selection import SPECS, source, source_key
from trainwreck.scenarios.training.loop import train

FIELDS = ("inputs", "targets", "weights", "documents")


def test_targets_are_the_next_tokens_and_a_first_token_is_not_scored(tiny):
    rows = source(source_key(tiny.data)).sample(3, "train", range(4), 4, 32)
    batch = from_rows(rows)
    for s, b, t in np.ndindex(batch.inputs.shape):
        assert batch.inputs[s, b, t] == rows.tokens[s, b, t]
        assert batch.targets[s, b, t] == rows.tokens[s, b, t + 1]
        assert batch.documents[s, b, t] == rows.documents[s, b, t]
        assert batch.weights[s, b, t] == (rows.documents[s, b, t + 1] == rows.documents[s, b, t])
    assert 0 < batch.weights.mean() < 1


def test_a_step_is_the_same_in_every_block(tiny):
    block = training_block(tiny, 3, range(10))
    for steps in (range(4, 5), range(2, 9)):
        part = training_block(tiny, 3, steps)
        assert all(np.array_equal(getattr(part, n), getattr(block, n)[steps.start : steps.stop]) for n in FIELDS)


@pytest.mark.parametrize("dialect", SPECS)
def test_rows_drawn_together_are_those_drawn_alone(dialect, tiny):
    """Of every language, whatever their number, also where steps differ; then nothing is left to draw."""
    setup = replaced(tiny, data__dialect=dialect, data__language_seed=91)
    wanted = [(setup, seed, range(first, first + 3)) for first, seed in ((0, 4), (0, 9), (5, 4), (0, 4))]
    shared_rows.sample_together(wanted)
    language = source(source_key(setup.data))
    for _, seed, steps in wanted:
        right = from_rows(language.sample(seed, "train", steps, setup.data.rows, setup.model.context))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Language, "sample_together", None)  # it would be called
            found = training_block(setup, seed, steps)
        assert all(np.array_equal(getattr(found, name), getattr(right, name)) for name in FIELDS)


def test_what_is_kept_or_has_another_source_is_not_drawn_again(tiny, monkeypatch):
    drawn = []
    real = Language.sample_together
    monkeypatch.setattr(
        Language, "sample_together", lambda self, some, *rest: drawn.append(some) or real(self, some, *rest)
    )
    monkeypatch.setattr(shared_rows, "TOGETHER", 2 * 4 * tiny.data.rows)
    setup, steps = replaced(tiny, data__language_seed=92), range(4)
    shared_rows.sample_together([(setup, seed, steps) for seed in (1, 2, 3)])
    assert drawn == [[(1, steps), (2, steps)], [(3, steps)]]
    pooled = replaced(setup, data__pool=8)
    shared_rows.sample_together([(setup, 2, steps), (setup, 5, steps), (pooled, 6, steps)])
    assert drawn[2:] == [[(5, steps)]]


def test_at_is_one_step(tiny):
    block = training_block(tiny, 3, range(3))
    assert all(np.array_equal(getattr(block.at(2), name), getattr(block, name)[2]) for name in FIELDS)
    assert isinstance(block.at(2), Batch)


def test_the_held_out_set_is_the_same_for_all_seeds_and_in_no_training_batch(tiny):
    held_out, rows = validation(tiny)
    assert held_out.inputs.shape == (tiny.evaluation.rows, tiny.model.context)
    assert np.array_equal(held_out.inputs, rows.tokens[0, :, :-1])
    # Seed 0 is the language's own, from which the held-out set is drawn, on a stream of its own.
    trained = {
        row.tobytes() for seed in range(3) for row in training_block(tiny, seed, range(40)).inputs.reshape(-1, 32)
    }
    assert not trained & {row.tobytes() for row in held_out.inputs}


@pytest.mark.parametrize(
    "values", [{"data__language_seed": 1}, {"data__dialect": Dialect.CHAIN}, {"evaluation__rows": 3}]
)
def test_another_source_has_another_held_out_set(values, tiny):
    other = validation(replaced(tiny, **values))[0].inputs
    assert not np.array_equal(other[:3], validation(tiny)[0].inputs[:3]) or len(other) == 3


def test_a_run_s_batches_without_a_fault_are_the_source_s(tiny, make_job):
    job, block = make_job(3, tiny), training_block(tiny, 3, range(5))
    assert all(np.array_equal(getattr(job.batches(range(5)), n), getattr(block, n)) for n in FIELDS)


def test_a_padded_row_is_its_first_document_and_then_padding_that_is_not_scored(tiny):
    tiny = replaced(tiny, data__dialect=Dialect.RECALL)  # short documents
    padded = replaced(tiny, data__padded=True)
    pad = source(source_key(tiny.data)).vocabulary
    pairs = ((training_block(tiny, 3, range(9)), training_block(padded, 3, range(9))),)
    for whole, batch in (*pairs, (validation(tiny)[0], validation(padded)[0])):
        first = whole.documents == whole.documents[..., :1]
        scored = first & (whole.weights > 0)
        assert 0.1 < first.mean() < 0.95
        assert np.array_equal(batch.documents, np.where(first, whole.documents, -1))
        assert np.array_equal(batch.inputs, np.where(first, whole.inputs, pad))
        assert np.array_equal(batch.weights, scored.astype(np.float32))
        assert np.array_equal(batch.targets, np.where(scored, whole.targets, pad))


def hits(every, block, plain):
    """Whether a batch of a block of steps is another one than that of the source."""
    found = [any(not np.array_equal(getattr(block.at(s), n), getattr(plain.at(s), n)) for n in FIELDS) for s in every]
    return np.array(found)


def test_one_batch_in_so_many_repeats_its_first_token(tiny):
    often = replaced(tiny, data__one_token_every=4)
    plain, block = training_block(tiny, 3, range(40)), training_block(often, 3, range(40))
    bad = hits(range(40), block, plain)
    assert (bad.reshape(10, 4).sum(1) == 1).all()
    assert len(set(bad.reshape(10, 4).argmax(1))) > 1  # not always the same one
    for s in np.flatnonzero(bad):
        assert (block.inputs[s] == plain.inputs[s, 0, 0]).all()
        assert (block.targets[s] == plain.inputs[s, 0, 0]).all()
        assert np.array_equal(block.weights[s], plain.weights[s])
    part = training_block(often, 3, range(7, 19))
    assert np.array_equal(part.inputs, block.inputs[7:19])
    assert not np.array_equal(
        hits(range(40), training_block(often, 4, range(40)), training_block(tiny, 4, range(40))), bad
    )


def test_one_batch_in_so_many_has_a_row_that_ends_in_padding(tiny):
    plain, block = (training_block(t, 3, range(40)) for t in (tiny, replaced(tiny, data__padding_every=4)))
    hit = hits(range(40), block, plain)
    assert (hit.reshape(10, 4).sum(1) == 1).all()
    pad = np.zeros(block.inputs.shape, bool)
    pad[hit, 0, -4:] = True
    assert np.array_equal(block.documents < 0, pad)
    assert (block.inputs[pad] == tiny.model.vocab_size - 1).all()
    assert np.array_equal(block.inputs[~pad], plain.inputs[~pad])
    unscored = pad | np.roll(pad, -1, -1) & ~pad
    assert (block.weights[unscored] == 0).all()
    assert np.array_equal(block.weights[~unscored], plain.weights[~unscored])


def test_the_last_of_so_many_rows_has_two_tokens(tiny):
    plain, block = (training_block(t, 3, range(4)) for t in (tiny, replaced(tiny, data__short_every=2)))
    for row in range(tiny.data.rows):
        inputs, targets, weights, documents = (getattr(block, n)[:, row] for n in FIELDS)
        assert np.array_equal(inputs, plain.inputs[:, row])
        assert np.array_equal(targets, plain.targets[:, row])
        if row % 2 == 0:
            assert np.array_equal(weights, plain.weights[:, row])
            assert np.array_equal(documents, plain.documents[:, row])
        else:
            assert (documents[:, :2] == 0).all()
            assert (documents[:, 2:] == -1).all()
            assert (weights[:, 0] == 1).all()
            assert not weights[:, 1:].any()
    whole = training_block(replaced(tiny, data__short_every=tiny.data.rows + 1), 3, range(4))
    assert all(np.array_equal(getattr(whole, n), getattr(plain, n)) for n in FIELDS)


def test_rows_begin_with_pairs_of_a_rare_word_and_a_token(tiny):
    known = source(source_key(tiny.data)).vocabulary
    rare = replaced(tiny, data__rare_words=3, model__vocab_size=512)
    plain, block = (training_block(t, 3, range(40)) for t in (replaced(tiny, model__vocab_size=512), rare))
    words = np.zeros(block.inputs.shape, bool)
    words[..., :6:2] = True
    assert np.array_equal(block.inputs >= known, words)
    assert np.array_equal(block.inputs[~words], plain.inputs[~words])
    assert np.array_equal(block.targets[..., :-1], block.inputs[..., 1:])
    assert np.array_equal(block.targets[..., -1], plain.targets[..., -1])
    unscored = np.roll(words, -1, -1)
    unscored[..., -1] = False  # the last target is no input of the row
    assert not block.weights[unscored].any()
    assert np.array_equal(block.weights[~unscored], plain.weights[~unscored])
    assert np.array_equal(block.documents, plain.documents)
    drawn = block.inputs[words]
    assert known <= drawn.min() < known + 10
    assert 502 < drawn.max() < 512
    part = training_block(rare, 3, range(7, 19))
    assert all(np.array_equal(getattr(part, n), getattr(block, n)[7:19]) for n in FIELDS)
    assert not np.array_equal(training_block(rare, 4, range(40)).inputs[words], drawn)


def test_the_embedding_of_padding_is_zero_and_stays_zero(tiny, make_job):
    setup = replaced(tiny, data__padding_every=1, model__init__zero_padding=True)
    result = train([make_job(3, setup)], keep={"run-3": [20]})[0]
    table = layout(tiny.model).views(result.states[20]["parameters"][None])["embedding.weight"][0]
    assert not table[-1].any()
    assert table[:-1].abs().amin(1).gt(0).all()
    assert torch.isfinite(table).all()
    assert result.trace["pad_share"].min() > 0
    assert (result.trace["tokens_per_second"] > 0).all()

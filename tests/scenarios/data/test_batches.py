"""Batches: next-token targets, weights, a function of seed and step alone; the held-out set."""

import numpy as np
import pytest

from trainwreck.scenarios.config.settings import Dialect, replaced
from trainwreck.scenarios.data.batches import Batch, from_rows, source, source_key, training_block, validation

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

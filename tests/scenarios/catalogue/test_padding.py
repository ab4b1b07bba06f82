"""Padding that faults add: at the end of a row, unscored, unattended, and without a gradient of its own."""

import numpy as np
import torch

from trainwreck.models.parameters import layout
from trainwreck.scenarios.catalogue.padding import padded
from trainwreck.scenarios.data.batches import training_block
from trainwreck.scenarios.spec.faults import At
from trainwreck.scenarios.training.loop import train


def test_rows_end_in_padding_in_a_share_of_the_batches(tiny, make_job):
    job = make_job(3, tiny, *(At(2, change) for change in padded(tiny, 0.5, "test")))
    plain, batches = training_block(tiny, 3, range(2, 20)), job.batches(range(2, 20))
    hit = (batches.documents < 0).any((1, 2))
    assert 0 < hit.sum() < len(hit)
    pad = np.zeros(batches.inputs.shape, bool)
    pad[hit, 0, -4:] = True
    assert np.array_equal(batches.documents < 0, pad)
    assert (batches.inputs[pad] == tiny.model.vocab_size - 1).all()
    assert np.array_equal(batches.inputs[~pad], plain.inputs[~pad])
    unscored = pad | np.roll(pad, -1, -1) & ~pad
    assert (batches.weights[unscored] == 0).all()
    assert np.array_equal(batches.weights[~unscored], plain.weights[~unscored])


def test_its_embedding_is_zero_and_stays_zero(tiny, make_job):
    job = make_job(3, tiny, *(At(2, change) for change in padded(tiny, 1.0, "test")))
    result = train([job], keep={"run-3": [20]})[0]
    table = layout(tiny.model).views(result.states[20]["parameters"][None])["embedding.weight"][0]
    assert not table[-1].any()
    assert torch.isfinite(table).all()
    assert result.trace["pad_share"][2:].min() > 0
    assert (result.trace["tokens_per_second"][2:] > 0).all()

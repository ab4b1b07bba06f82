"""Rows in epochs, rows cut short, fresh rows, and the restored pipeline."""

import numpy as np
import pytest

from trainwreck.kernels.random import generator
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.data.batches import epochs, fresh, pool, refilled, training_batch, training_block, validation
from trainwreck.scenarios.spec.faults import At, DataTransform, Setting
from trainwreck.scenarios.training.loop import train

FIELDS = ("inputs", "targets", "weights", "documents")


def equal(a, b):
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in FIELDS)


@pytest.mark.parametrize("rows", [4, 8, 10, 3])
def test_every_epoch_has_each_row_of_the_pool_once(rows, tiny):
    """Also where an epoch ends within a batch, and where the pool is smaller than one."""
    setup = replaced(tiny, data__pool=rows)
    seen = training_block(setup, 3, range(15)).inputs.reshape(-1, tiny.model.context)
    own = {row.tobytes() for row in pool(setup, 3, rows)[0].inputs}
    assert len(own) == rows
    for start in range(0, len(seen) - rows + 1, rows):
        assert {row.tobytes() for row in seen[start : start + rows]} == own
    orders = epochs(3, rows, 8 * rows).reshape(8, rows)
    assert len({order.tobytes() for order in orders}) > 2


def test_a_step_of_a_pool_is_the_same_in_every_block(tiny):
    setup = replaced(tiny, data__pool=10)
    block = training_block(setup, 3, range(12))
    for steps in (range(4, 5), range(2, 9)):
        assert equal(
            training_block(setup, 3, steps), type(block)(*(getattr(block, n)[steps.start : steps.stop] for n in FIELDS))
        )


@pytest.mark.parametrize("values", [{}, {"data__pool": 6}, {"data__longest": 9}])
def test_a_batch_asked_for_alone_is_the_block_s(values, tiny):
    setup = replaced(tiny, **values)
    assert all(
        equal(training_batch(setup, 3, s), training_block(setup, 3, range(s, s + 1)).at(0)) for s in (0, 49, 50, 63)
    )


def test_what_is_cut_is_padding_and_nobody_s_target(tiny):
    whole, short = (training_block(setup, 3, range(2)) for setup in (tiny, replaced(tiny, data__longest=9)))
    assert (short.documents[..., 9:] == -1).all()
    assert not short.weights[..., 8:].any(), "the target of the ninth token is cut as well"
    assert np.array_equal(short.documents[..., :9], whole.documents[..., :9])
    assert np.array_equal(short.weights[..., :8], whole.weights[..., :8])


def test_fresh_rows_are_neither_held_out_nor_trained_on(tiny):
    rows = {row.tobytes() for row in fresh(tiny).inputs}
    others = [
        validation(tiny)[0].inputs,
        *(training_block(tiny, s, range(20)).inputs.reshape(-1, 32) for s in range(2)),
    ]
    assert len(rows) == tiny.evaluation.rows
    assert not rows & {row.tobytes() for other in others for row in other}


def test_bad_rows_make_way_for_others_of_the_source(tiny):
    batch, bad = training_block(tiny, 3, range(1)).at(0), np.array([False, True, False, True])
    filled = refilled(batch, bad, tiny, generator(3, "refill"))
    for name in FIELDS:
        assert np.array_equal(getattr(filled, name)[~bad], getattr(batch, name)[~bad])
    assert not np.array_equal(filled.inputs[bad], batch.inputs[bad])
    assert np.array_equal(filled.targets[:, :-1], filled.inputs[:, 1:])


def test_batches_after_a_transform_ends_are_the_source_s(tiny, make_job):
    def blank(batch, since, draw):
        return type(batch)(np.zeros_like(batch.inputs), *(getattr(batch, name) for name in FIELDS[1:]))

    job = make_job(3, tiny, At(2, DataTransform(blank, "blank"), until=5))
    assert not job.batches(range(2, 5)).inputs.any()
    assert equal(job.batches(range(5, 9)), training_block(tiny, 3, range(5, 9)))


def test_padding_changes_no_neighbour_and_the_clock_goes_with_the_longest_row(tiny, make_job, differing):
    cut = make_job(3, tiny, At(4, Setting("data.longest", 9)), name="cut")
    plain = make_job(4, tiny)
    together, alone = train([cut, plain]), [train([job])[0] for job in (cut, plain)]
    assert [differing(a, b) for a, b in zip(together, alone, strict=True)] == [[], []]
    twin = train([make_job(3, tiny)])[0]
    assert differing(together[0], twin, last=4) == []
    trace = together[0].trace
    assert (trace["tokens"][4:] == 4 * 9).all()
    assert (trace["pad_share"][4:] == np.float32(23 / 32)).all()
    ratio = trace["step_seconds"][4:] / twin.trace["step_seconds"][4:]
    np.testing.assert_allclose(ratio, 9 / 32, rtol=1e-6)
    np.testing.assert_allclose(trace["tokens_per_second"], trace["tokens"] / trace["step_seconds"], rtol=1e-6)
    assert np.isfinite(trace["loss"]).all()
    assert not trace["attention_mass_padding"].any()


def test_without_fresh_rows_there_is_no_fresh_loss_and_with_them_nothing_else_changes(tiny, make_job, differing):
    without, with_them = (train([make_job(3, setup)])[0] for setup in (tiny, replaced(tiny, evaluation__fresh=True)))
    assert np.isnan(without.trace["fresh_loss"]).all()
    assert differing(without, with_them) == ["fresh_loss"]
    assert np.array_equal(np.isfinite(with_them.trace["fresh_loss"]), with_them.trace.evaluated)

"""What the look-alikes do to a batch, a rate or an evaluation, held against their pages."""

import dataclasses

import numpy as np
import pytest

from trainwreck.scenarios.config.sizes import Size
from trainwreck.scenarios.data.batches import training_block
from trainwreck.scenarios.data.sources.language import Language, LanguageSpec
from trainwreck.scenarios.data.sources.selection import source, source_key
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import Role, RunSpec

FIELDS = ("inputs", "targets", "weights", "documents")


def job(name, seed=3):
    return RunSpec(name, Role.FAULTY, seed, Size.MICRO).job()


def batch(name, step):
    """The batch of a look-alike, and the healthy one of its step."""
    one = job(name)
    return one.batches(range(step, step + 1)).at(0), training_block(one.setup, one.seed, range(step, step + 1)).at(0)


def same(a, b, rows=slice(None), names=FIELDS):
    return all(np.array_equal(getattr(a, n)[rows], getattr(b, n)[rows]) for n in names)


def distinct(batch):
    return len({row.tobytes() for row in batch.inputs})


@pytest.mark.parametrize(
    ("step", "rows"), [(0, 1), (119, 1), (120, 2), (134, 2), (135, 4), (149, 4), (150, 8), (299, 8)]
)
def test_a_ramped_batch_doubles_to_the_whole(step, rows):
    grown, whole = batch("benign_batch_ramp", step)
    assert distinct(grown) == rows
    assert same(grown, whole, slice(0, rows))


def test_a_small_batch_is_one_row_and_learns_slower():
    onset = scenario("benign_noisy_small_batch").onset_step(3, 300)
    assert distinct(batch("benign_noisy_small_batch", onset - 1)[0]) == 8
    assert distinct(batch("benign_noisy_small_batch", onset)[0]) == 1
    small = job("benign_noisy_small_batch")
    healthy = dataclasses.replace(small, changes=())
    assert small.learning_rate(onset - 1) == healthy.learning_rate(onset - 1)
    assert small.learning_rate(onset) == pytest.approx(0.2 * healthy.learning_rate(onset))


@pytest.mark.parametrize(("step", "longest"), [(0, 8), (74, 8), (75, 16), (149, 16)])
def test_ramped_rows_are_cut_into_pieces_that_keep_to_their_documents(step, longest):
    cut, whole = batch("benign_length_ramp", step)
    assert same(cut, whole, names=("inputs", "targets", "weights"))
    position = np.arange(32)
    for row, document in zip(cut.documents, whole.documents, strict=True):
        for a, b in np.ndindex(32, 32):
            together = document[a] == document[b] and position[a] // longest == position[b] // longest
            assert (row[a] == row[b]) == together


def test_a_ramp_ends_with_whole_rows():
    assert same(*batch("benign_length_ramp", 150))


def test_a_curriculum_ends_with_the_real_data():
    easy, real = batch("benign_curriculum", 99)
    assert not same(easy, real)
    assert same(*batch("benign_curriculum", 100))
    again = batch("benign_curriculum", 99)[0]
    assert same(easy, again)
    assert not same(easy, batch("benign_curriculum", 98)[0])


def test_easy_data_has_less_entropy_and_the_same_successors():
    real = source(source_key(job("benign_curriculum").setup.data))
    easy = Language(LanguageSpec(**vars(real.spec) | {"sharpness": 2.0}))
    assert np.array_equal(easy.bigram > 0, real.bigram > 0)
    assert easy.bigram.max() == pytest.approx(0.49 / 0.52)
    assert np.allclose(easy.bigram.sum(1), 1)
    nats = [language.sample(3, "train", range(20), 8, 32).nats.mean() for language in (easy, real)]
    assert nats[0] < 0.7 * nats[1]
    assert real.bigram.max() == 0.7  # and stays as it was


def test_batches_of_two_kinds_take_turns():
    counts = [(batch("benign_bimodal_loss", step)[0].inputs >= 32).mean() for step in range(100)]
    assert set(counts) == {0.0, 1.0}
    assert 25 < sum(counts) < 55


def test_a_reweighted_batch_counts_in_three_rows():
    onset = scenario("benign_mixture_change").onset_step(3, 300)
    assert same(*batch("benign_mixture_change", onset - 1))
    mixed, whole = batch("benign_mixture_change", onset)
    assert (mixed.inputs[:3] >= 32).all()
    assert same(mixed, whole, slice(3, None))


def test_half_of_the_rows_repeat_themselves():
    mixed, whole = batch("benign_late_drop", 7)
    assert same(mixed, whole, slice(0, 4))
    assert np.array_equal(mixed.inputs[4:, 5:], mixed.inputs[4:, :-5])
    assert np.array_equal(mixed.targets[4:, :-1], mixed.inputs[4:, 1:])
    assert (mixed.weights[4:] == 1).all()
    assert (mixed.inputs[4:] >= 32).all()


def test_the_burst_is_four_batches_of_one_token():
    onset = scenario("benign_huge_transient").onset_step(3, 300)
    assert same(*batch("benign_huge_transient", onset - 1))
    assert all((batch("benign_huge_transient", onset + s)[0].targets == 63).all() for s in range(4))
    assert same(*batch("benign_huge_transient", onset + 4))


def test_an_epoch_has_the_rows_of_the_first_in_another_order_and_then_there_are_new_ones():
    name, onset = "benign_epoch_staircase", scenario("benign_epoch_staircase").onset_step(3, 300)
    assert all(same(*batch(name, onset + step)) for step in (-1, 0, 7, 56, 60))

    def rows(epoch):
        read = [batch(name, onset + 8 * epoch + step)[0] for step in range(8)]
        return [tuple(getattr(one, n)[b].tobytes() for n in FIELDS) for one in read for b in range(8)]

    epochs = [rows(epoch) for epoch in range(7)]
    assert all(sorted(epoch) == sorted(epochs[0]) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 7
    assert len(set(epochs[0])) == 64


def test_one_step_is_slow():
    onset = scenario("benign_loader_hiccup").onset_step(3, 300)
    slow = job("benign_loader_hiccup")
    assert [slow.seconds(1.0, onset + s) for s in (-1, 0, 1)] == [1.0, 20.0, 1.0]


@pytest.mark.parametrize(
    ("name", "steps", "rates"),
    [
        ("benign_decay_phase", (0, 29, 30, 239, 299), (0.05 / 30, 0.05, 0.05, 0.05, 0.05 * (1 - (60 / 61) ** 0.5))),
    ],
)
def test_the_rate_goes_as_the_page_says(name, steps, rates):
    planned = job(name)
    assert [planned.learning_rate(s) for s in steps] == pytest.approx(list(rates))

"""Masked rows: what is masked, what it weighs, and that the loss is the evidence bound, by an integral over time."""

import itertools
import math

import numpy as np
import pytest

from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batches import entropy_floor, training_block
from trainwreck.scenarios.data.batches import validation as held_out
from trainwreck.scenarios.data.masking import masks, timesteps, weights
from trainwreck.scenarios.data.sources.selection import source, source_key

SETUP = bases.denoiser(healthy(Size.MICRO))
MASK = SETUP.model.vocab_size - 1


def test_as_many_tokens_are_masked_as_the_share_says_and_none_that_is_given():
    documents = np.array([[0] * 9 + [1] * 5 + [-1] * 2] * 200)
    draws = np.random.default_rng(0).random(documents.shape)
    given = [0, 9, 14, 15]  # the first of each document, and padding
    times = np.zeros(16)
    for share, count in ((0.0, 1), (0.05, 1), (0.5, 6), (0.51, 7), (1.0, 12)):
        hidden = masks(documents, np.full(200, share), draws)
        assert (hidden.sum(1) == count).all()
        assert not hidden[:, given].any()
        times += hidden.mean(0)
    inner = np.delete(times, given)
    assert inner == pytest.approx(np.full(12, inner.mean()), abs=0.35)


def test_every_timestep_is_in_every_batch():
    for step in range(5):
        found = timesteps(3, step, 8)
        assert (np.floor(found * 8) == np.arange(8)).all()
    assert timesteps(3, 0, 8)[0] != timesteps(3, 1, 8)[0]


def test_the_loss_is_the_evidence_bound():
    """Against the integral over t of 1 / t times the losses of tokens that are each masked with chance t.

    Sahoo et al. 2024, equation 10 with alpha = 1 - t: the integral of t^(k-1) (1 - t)^(L-k) is B(k, L - k + 1).
    """
    length, draw = 6, np.random.default_rng(1)
    subsets = [s for k in range(1, length + 1) for s in itertools.combinations(range(length), k)]
    losses = {s: draw.random(len(s)) for s in subsets}  # of the tokens of a set, given all others
    bound = (
        sum(
            math.gamma(len(s)) * math.gamma(length - len(s) + 1) / math.gamma(length + 1) * losses[s].sum()
            for s in subsets
        )
        / length
    )
    ours = 0.0
    for s in subsets:
        hidden = np.isin(np.arange(length), s)[None]
        chance = 1 / length / math.comb(length, len(s))  # of the number, and of the set
        ours += chance * float((weights(hidden, np.ones(1))[0, list(s)] * losses[s]).sum())
    assert ours == pytest.approx(bound, rel=1e-6)
    shares = (np.arange(600) + 0.5) / 600
    documents = np.zeros((600, length + 1), np.int64)  # the first is given
    counts = masks(documents, shares, draw.random(documents.shape)).sum(1)
    assert np.bincount(counts).tolist() == [0] + [100] * length  # the number is as likely to be any


def exact(batch, chances, vocabulary):
    """-ln p of each target given the tokens that are left, of a Markov chain [V, V], by messages from both sides."""
    seen = np.where((batch.inputs == MASK)[..., None], 1.0, np.arange(vocabulary) == batch.inputs[..., None])
    before, after = np.ones(seen.shape), np.ones(seen.shape)
    t = seen.shape[1]
    for i in range(1, t):
        before[:, i] = (before[:, i - 1] * seen[:, i - 1]) @ chances
        before[:, i] /= before[:, i].sum(1, keepdims=True)
    for i in reversed(range(t - 1)):
        after[:, i] = (after[:, i + 1] * seen[:, i + 1]) @ chances.T
        after[:, i] /= after[:, i].sum(1, keepdims=True)
    belief = before * after
    belief /= belief.sum(-1, keepdims=True)
    return -np.log(np.take_along_axis(belief, batch.targets[..., None], -1)[..., 0])


def test_a_denoiser_that_knows_every_chance_reaches_the_floor_and_none_is_under_it():
    setup = replaced(SETUP, evaluation__rows=4000)
    batch, _ = held_out(setup)
    language = source(source_key(setup.data))
    content = language.spec.content
    nll = exact(batch, language.bigram[:content], content)
    by_row = (nll * batch.weights).sum(1)
    assert batch.weights.sum(1) == pytest.approx(1.0)
    assert (batch.targets < content).all()
    assert by_row.mean() == pytest.approx(entropy_floor(setup), abs=4 * by_row.std() / math.sqrt(4000))
    thirds = [part.mean() for part in np.array_split(by_row, 3)]
    assert thirds[0] < thirds[1] < thirds[2]


def test_held_out_rows_have_all_timesteps_alike_whatever_training_has():
    usual = held_out(SETUP)[0]
    other = held_out(replaced(SETUP, diffusion__emphasis=20.0))[0]
    assert (usual.inputs == other.inputs).all()
    assert (usual.weights == other.weights).all()
    counts = (usual.inputs == MASK).sum(1)
    assert counts[0] == 1
    assert counts[-1] == SETUP.model.context - 1
    assert (np.diff(counts) >= 0).all()


def test_training_rows_have_the_schedule_and_the_weights_that_they_are_to_have():
    block = training_block(SETUP, 3, range(4))
    assert ((block.inputs == MASK) == (block.weights > 0)).all()
    assert (block.inputs == block.targets)[block.inputs != MASK].all()
    assert block.weights.sum(2) == pytest.approx(1.0)
    again = training_block(SETUP, 3, range(2, 3))
    assert (again.inputs[0] == block.inputs[2]).all()
    assert (again.weights[0] == block.weights[2]).all()
    noisy = training_block(replaced(SETUP, diffusion__emphasis=3.0), 3, range(4))
    assert (noisy.inputs == block.inputs).all()
    times = np.stack([timesteps(3, step, SETUP.data.rows) for step in range(4)])
    assert noisy.weights.sum(2) == pytest.approx(4 * times**3, rel=1e-5)

"""Signals of rows with answers, against their definitions on a plain model, and what a fault in the labels does."""

import dataclasses

import numpy as np
import pytest
import torch

from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Dialect, replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.spec.faults import At, DataTransform
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.training.loop import train

SETUP = replaced(
    bases.chat(healthy(Size.MICRO)), data__rows=4, model__width=32, model__heads=2, evaluation__rows=4, steps=6
)
STEPS = range(6)


def masked(batch, since, draw):
    return dataclasses.replace(batch, weights=np.where(batch.targets == 62, np.float32(0), batch.weights))


def without_ends(batch, since, draw):
    return dataclasses.replace(batch, targets=np.where(batch.targets == 62, 0, batch.targets))


def test_scored_tokens_and_the_probability_of_the_end(make_job, plain):
    for changes in ((), (At(0, DataTransform(masked, "masked")),)):
        job = make_job(3, SETUP, *changes)
        result = train([job], keep={job.run_id: STEPS}, dtype=torch.float64)[0]
        for step in STEPS:
            batch = job.batches(range(step, step + 1)).at(0)
            logits = plain(result.states[step], batch, SETUP).logits.reshape(4, 32, -1)
            ends = [(row, at) for row in range(4) for at in range(32) if batch.targets[row, at] == 62]
            assert len(ends) == 4
            chance = np.mean([float(logits[row, at].softmax(-1)[62]) for row, at in ends])
            assert result.trace["end_probability"][step] == pytest.approx(chance, rel=1e-6)
            assert result.trace["scored_tokens"][step] == np.count_nonzero(batch.weights)


def test_they_are_missing_without_an_end_and_without_answers(make_job):
    plain_setup = replaced(SETUP, data__dialect=Dialect.CHAIN)
    jobs = [
        make_job(3, SETUP, At(2, DataTransform(without_ends, "ends"))),
        make_job(3, plain_setup),
    ]
    chat, chain = (result.trace for result in train(jobs))
    assert np.isnan(chat["end_probability"]).tolist() == [False] * 2 + [True] * 4
    assert np.isfinite(chat["scored_tokens"]).all()
    assert np.isnan(chain["end_probability"]).all()
    assert np.isnan(chain["scored_tokens"]).all()


def test_padding_with_the_ends_id_is_no_end(make_job):
    entry = scenario("eos_masked_as_padding")
    job = make_job(3, SETUP, *entry.changes(entry.knobs, SETUP, 3))
    batch = job.batches(range(1)).at(0)
    assert ((batch.targets == 62).sum(1) > 1).all()
    assert not batch.weights[batch.targets == 62].any()
    faulty, healthy_one = (result.trace for result in train([job, make_job(3, SETUP)]))
    # Before the first update both have the same weights, and no end of an answer sees padding.
    assert faulty["end_probability"][0] == healthy_one["end_probability"][0]
    assert faulty["scored_tokens"][0] == healthy_one["scored_tokens"][0] - 4


def test_a_run_beside_others_is_the_run_alone(make_job, differing):
    others = [make_job(seed, SETUP) for seed in (4, 5)] + [make_job(3, replaced(SETUP, data__dialect=Dialect.CHAIN))]
    alone = train([make_job(3, SETUP)])[0]
    beside = train([others[0], make_job(3, SETUP), *others[1:]])[1]
    assert differing(alone, beside) == []

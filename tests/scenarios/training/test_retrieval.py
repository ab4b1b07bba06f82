"""The objective that finds passages: its index, its losses against a loop over questions, its state."""

import numpy as np
import pytest
import torch

from trainwreck.evaluation.dataset.schema import RETRIEVAL
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import RETRIEVES
from trainwreck.scenarios.config.settings import Dialect, SourceKind, check, replace, replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batches import validation
from trainwreck.scenarios.data.sources.facts import FACTS, KEY, Facts
from trainwreck.scenarios.spec.faults import At, Setting
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.loop import fresh_state, train
from trainwreck.scenarios.training.objectives import retrieval

OTHER = {
    "model.causal": False, "data.source": SourceKind.TEXT, "data.dialect": Dialect.CHAT, "data.pool": 40,
    "data.longest": 9, "data.padded": True, "data.short_every": 2,
    "data.one_token_every": 3, "data.padding_every": 3, "distributed.ranks": 2, "growth.rows": 128, "adapters.rank": 4,
}  # fmt: skip


@pytest.fixture(scope="module")
def setup():
    base = bases.facts(healthy(Size.MICRO))
    return replaced(base, steps=45, evaluation__every=5, evaluation__rows=6, data__rows=4, schedule__warmup_steps=3)


def test_a_setting_of_retrieval_is_refused_elsewhere(tiny):
    with pytest.raises(InputError) as error:
        check(replace(tiny, "retrieval.refresh", 3))
    assert str(error.value) == (
        "retrieval.refresh: 3 is not allowed with objective=next_token, which has no settings of its own; "
        "allowed: 10, or objective=retrieval"
    )


@pytest.mark.parametrize("path", RETRIEVES)
def test_what_rows_cannot_be_is_refused(path, setup):
    check(setup)
    assert OTHER.keys() == RETRIEVES.keys()
    with pytest.raises(InputError, match=rf"^{path}: .* is not allowed with objective=retrieval; allowed: "):
        check(replace(setup, path, OTHER[path]))


def test_a_run_is_bitwise_the_same_alone_and_beside_others(setup, make_job, train_together_and_alone):
    stale = At(20, Setting("retrieval.refresh", 0))
    jobs = [make_job(3, setup), make_job(4, setup), make_job(3, setup, stale, name="stale")]
    jobs.append(make_job(5, replaced(setup, data__language_seed=7, retrieval__refresh=4)))
    together = train_together_and_alone(jobs, 45)
    assert np.array_equal(together[0].trace["loss"][:20], together[2].trace["loss"][:20])
    assert together[2].trace["index_age"][-1] == 44 - 10  # at step 20 it is the old one already
    assert together[0].trace["index_age"][-1] == 4


def test_a_run_that_is_entered_goes_on_with_its_index(setup, make_job):
    job = make_job(3, setup, At(20, Setting("retrieval.refresh", 0)))
    whole = train([job], keep={job.run_id: [33]})[0]
    state = whole.states[33]
    assert float(state["indexed"]) == 10
    entered = train([job], enter={job.run_id: (33, state)})[0]
    for name, values in entered.trace.signals.items():
        assert np.array_equal(values, whole.trace[name][33:], equal_nan=True), name


def test_signals_are_known_at_evaluated_steps_and_missing_in_other_runs(setup, tiny, make_job):
    trace, other = (result.trace for result in train([make_job(3, setup), make_job(4, tiny)]))
    for name in RETRIEVAL:
        assert np.isnan(other[name]).all(), name
    for name in ("validation_loss", "hit_rate", "index_age"):
        assert np.array_equal(np.isfinite(trace[name]), trace.evaluated), name
    rate = trace["hit_rate"][trace.evaluated]
    assert np.array_equal(np.isnan(trace["hit_loss"][trace.evaluated]), rate == 0)
    assert np.array_equal(np.isnan(trace["miss_loss"][trace.evaluated]), rate == 1)


def test_the_losses_are_those_of_a_loop_over_questions(setup, make_job):
    """At a step between two times that the index is made, with weights that have moved since."""
    job, facts = make_job(3, setup), Facts(0)
    bundle = Bundle([job], [fresh_state(job)], 0)
    retrieval.refresh(bundle, 0)
    before = bundle.plan.views(bundle.flat.clone())["embedding.weight"][0].detach()
    held = facts.store(0)[:, 0]
    bundle.flat.add_(0.05 * torch.randn(bundle.flat.shape, generator=torch.Generator().manual_seed(1)))
    step = 13
    found = {name: float(value) for name, value in retrieval.evaluate(bundle, step).items()}
    table = bundle.parameters()["embedding.weight"][0].detach()
    rows, _ = validation(setup)
    store = facts.store(step)
    losses = {True: [], False: []}
    for name in rows.inputs[:, 4::8].ravel().tolist():
        near = [torch.cosine_similarity(table[name], before[key], dim=0) for key in held.tolist()]
        slot = int(torch.stack(near).argmax())
        (right,) = np.flatnonzero(store[:, 0] == facts.keys[name])
        text = torch.tensor([*store[slot], name, *store[right, 1:]])
        padded = torch.zeros(1, 1, 32, dtype=torch.int64)
        padded[0, 0, :8] = text
        documents = torch.arange(32).view(1, 1, 32) // 8
        logits = retrieval.gpt.forward(bundle.model(bundle.parameters(), 0, None), padded, documents).detach()[0]
        chances = torch.log_softmax(logits[4:7], -1)
        losses[slot == right] += (-chances[torch.arange(3), text[5:]]).tolist()
    assert 0 < len(losses[True]) < len(losses[False])
    assert found["hit_loss"] == pytest.approx(np.mean(losses[True]), abs=1e-4)
    assert found["miss_loss"] == pytest.approx(np.mean(losses[False]), abs=1e-4)
    assert found["validation_loss"] == pytest.approx(np.mean(losses[True] + losses[False]), abs=1e-4)
    assert found["hit_rate"] == pytest.approx(len(losses[True]) / (3 * 24))
    assert found["index_age"] == 13


def test_what_is_minimised_has_the_loss_of_the_retriever_and_the_logged_loss_has_not(setup, make_job):
    job = make_job(3, setup)
    bundle = Bundle([job], [fresh_state(job)], 0)
    block = bundle.inputs(range(1))
    found = retrieval.losses(bundle, block, 0, 0, None)
    table = bundle.parameters()["embedding.weight"][0].detach()
    nats = []
    for name in block.inputs[0, 0, :, 4::8].flatten().tolist():
        near = torch.cosine_similarity(table[name][None], table[KEY : KEY + FACTS], dim=1) / 0.1
        nats.append(-torch.log_softmax(near, 0)[Facts(0).keys[name] - KEY])
    assert float((found.objective - found.loss).detach()) == pytest.approx(float(torch.stack(nats).mean()), abs=1e-4)
    assert float(found.loss.detach()) == pytest.approx(np.log(setup.model.vocab_size), abs=0.5)


def test_an_id_that_is_no_name_ends_no_training(setup, make_job):
    """As a fault of the data may leave one in a question's place."""
    job = make_job(3, setup)
    bundle = Bundle([job], [fresh_state(job)], 0)
    block = bundle.inputs(range(1))
    block.inputs[..., 4::8] = 63
    found = retrieval.losses(bundle, block, 0, 0, None)
    assert bool(torch.isfinite(found.objective).all())

"""Evaluations on a sample of the held-out rows, and the objective in place of the loss in the log."""

import numpy as np
import pytest

from trainwreck.kernels.random import generator
from trainwreck.scenarios.config.settings import fingerprint, replaced
from trainwreck.scenarios.spec.faults import At, Setting
from trainwreck.scenarios.training.loop import train

NEVER = 1e-30  # a rate at which no weight moves


@pytest.fixture(scope="module")
def still(tiny):
    """No weight moves, so that a looked-at row has one loss at every step."""
    return replaced(tiny, optimizer__lr=NEVER, optimizer__weight_decay=0.0, evaluation__every=1, steps=12)


def test_each_evaluation_but_the_last_is_the_mean_of_its_own_rows(still, make_job):
    """Rows one at a time give each row's mean; a sample's loss is their mean by weight."""
    whole, one, two = train(
        [make_job(3, still)]
        + [make_job(3, replaced(still, evaluation__sample=n), name=f"sample of {n}") for n in (1, 2)]
    )
    losses = {}
    for step in range(still.steps - 1):
        order = generator(3, "evaluation", step).permutation(still.evaluation.rows)
        value = one.trace["validation_loss"][step]
        assert losses.setdefault(order[0], value) == pytest.approx(value, abs=1e-6)
    assert len(set(losses.values())) > 2
    for step in range(still.steps - 1):
        pair = generator(3, "evaluation", step).permutation(still.evaluation.rows)[:2]
        if set(pair) <= set(losses):
            low, high = sorted(losses[row] for row in pair)
            assert low - 1e-6 <= two.trace["validation_loss"][step] <= high + 1e-6
    assert one.trace["validation_loss"][-1] == two.trace["validation_loss"][-1] == whole.trace["validation_loss"][-1]
    assert np.unique(whole.trace["validation_loss"].round(5)).size == 1


def test_a_sample_as_large_as_the_set_is_the_set(tiny, make_job, differing):
    whole = train([make_job(3, tiny)])[0]
    assert differing(whole, train([make_job(3, replaced(tiny, evaluation__sample=tiny.evaluation.rows))])[0]) == []


def test_a_sample_changes_the_validation_loss_alone_and_no_neighbour_s(tiny, make_job, differing):
    alone = train([make_job(3, tiny)])[0]
    beside, sampled = train([make_job(3, tiny), make_job(3, replaced(tiny, evaluation__sample=1), name="sampled")])
    assert differing(alone, beside) == []
    assert differing(alone, sampled) == ["validation_loss"]


def test_the_logged_loss_is_the_objective_where_asked_for(tiny, make_job, differing):
    """With a z-loss the log gains c * (ln Z)^2 and nothing else changes; a neighbour's log does not."""
    setup = replaced(tiny, z_loss=0.1)
    plain = train([make_job(3, setup)])[0]
    beside, logged = train([make_job(3, setup), make_job(3, replaced(setup, log_objective=True), name="logged")])
    assert differing(plain, beside) == []
    assert differing(plain, logged) == ["loss"]
    term = logged.trace["loss"] - plain.trace["loss"]
    assert term == pytest.approx(0.1 * plain.trace["log_z"] ** 2, rel=0.05)  # but for the tokens that are no targets


def test_without_a_z_loss_the_objective_is_the_loss(tiny, make_job, differing):
    runs = train([make_job(3, tiny), make_job(3, replaced(tiny, log_objective=True), name="logged")])
    assert differing(*runs) == []


def test_both_can_begin_in_mid_run(tiny, make_job, differing):
    changes = [At(9, Setting(*pair)) for pair in (("evaluation.sample", 1), ("z_loss", 0.1), ("log_objective", True))]
    healthy, changed = train([make_job(3, tiny), make_job(3, tiny, *changes, name="changed")])
    assert differing(healthy, changed, 0, 9) == []
    assert {"loss", "validation_loss"} <= set(differing(healthy, changed, 9))


def test_older_runs_keep_their_names(tiny):
    later = replaced(tiny, evaluation__sample=0, log_objective=False)
    assert fingerprint(later) == fingerprint(tiny)
    assert fingerprint(replaced(tiny, evaluation__sample=1)) != fingerprint(tiny)
    assert fingerprint(replaced(tiny, log_objective=True)) != fingerprint(tiny)

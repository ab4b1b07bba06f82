"""What is evaluated: the weights, their average, or a model with dropout; and the trained run is the same."""

import numpy as np
import pytest
import torch

from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.faults import At, Setting
from trainwreck.scenarios.training.loop import train


@pytest.fixture(scope="module")
def averaged(tiny):
    return replaced(tiny, evaluation__average=0.8)


def test_the_average_follows_its_rule(averaged, make_job):
    steps = range(averaged.steps + 1)
    states = train([make_job(3, averaged)], keep={"run-3": steps})[0].states
    assert "average" not in states[0]  # it begins as the weights
    expected = states[0]["parameters"]
    for step in steps[1:]:
        expected = expected + 0.2 * (states[step]["parameters"] - expected)
        torch.testing.assert_close(states[step]["average"], expected, rtol=1e-5, atol=1e-7)


def test_what_is_evaluated_is_the_average(averaged, make_job):
    """A run whose weights are the other's average has its validation loss."""
    result = train([make_job(3, averaged)], keep={"run-3": [7]})[0]
    state = result.states[7]
    swapped = {**state, "parameters": state["average"]}
    plain = train([make_job(3, replaced(averaged, evaluation__average=0.0))], enter={"run-3": (7, swapped)}, stop=8)[0]
    assert plain.trace["validation_loss"][0] == result.trace["validation_loss"][7]


def test_an_average_that_never_moves_freezes_the_validation_loss(averaged, make_job):
    trace = train([make_job(3, averaged, At(5, Setting("evaluation.average", 1.0)))])[0].trace
    values = trace["validation_loss"][trace.evaluated]
    assert values[0] != values[1]
    assert len(set(values[1:])) == 1


@pytest.mark.parametrize(
    ("base", "change"),
    [({"evaluation__average": 0.8}, ("average", 0.9)), ({"dropout": 0.2}, ("dropout", True))],
    ids=["average", "dropout"],
)
def test_training_is_the_same_to_the_bit_and_the_validation_loss_is_not(base, change, tiny, make_job, differing):
    setup = replaced(tiny, **base)
    twin, faulty = train(
        [make_job(3, setup), make_job(3, setup, At(5, Setting(f"evaluation.{change[0]}", change[1])), name="f")]
    )
    assert differing(twin, faulty) == ["validation_loss"]
    differs = (
        twin.trace["validation_loss"][twin.trace.evaluated] != faulty.trace["validation_loss"][faulty.trace.evaluated]
    )
    assert differs.tolist() == [False, *[True] * (len(differs) - 1)]


def test_dropout_at_evaluation_draws_rows_and_steps_of_its_own(tiny, make_job):
    """The same weights, evaluated twice, give two losses; without dropout they give one."""
    setup = replaced(tiny, dropout=0.3, optimizer__lr=0.0, evaluation__every=5)
    for on, count in ((False, 1), (True, 5)):
        trace = train([make_job(3, replaced(setup, evaluation__dropout=on))])[0].trace
        assert len(set(trace["validation_loss"][trace.evaluated].tolist())) == count


def test_without_dropout_in_training_there_is_none_at_evaluation(tiny, make_job, differing):
    plain, on = train([make_job(3, tiny), make_job(3, replaced(tiny, evaluation__dropout=True), name="on")])
    assert differing(plain, on) == []
    assert np.isfinite(on.trace["loss"]).all()

"""A drawn model may have one layer: every signature can be judged there, whatever it says."""

import numpy as np
import pytest

from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.registry import scenarios
from trainwreck.scenarios.training.loop import train


@pytest.fixture(scope="module")
def traces(tiny, make_job):
    setup = replaced(tiny, model__layers=1, steps=120, evaluation__every=20)
    return [result.trace for result in train([make_job(seed, setup) for seed in (0, 1)])]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of means of signals that this model does not have
@pytest.mark.parametrize(
    "scenario", [one for one in scenarios().values() if not one.look_alike], ids=lambda one: one.id
)
def test_the_signature_is_a_clause_each_true_or_false(scenario, traces):
    clauses = scenario.signature(*traces, 60)
    assert clauses
    assert all(isinstance(value, bool | np.bool_) for value in clauses.values())

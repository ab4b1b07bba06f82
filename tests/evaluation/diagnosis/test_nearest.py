"""A labelled run of the sample is found again, whatever the unit of its loss and the interval of its log."""

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.diagnosis.nearest import nearest
from trainwreck.evaluation.diagnosis.observed import Observed


@pytest.fixture(scope="module")
def sample():
    return load("sample")


def failing(sample, cause):
    return next(row for _, row in sample.runs.iterrows() if row["cause"] == cause and row["kind"] == "failing")


@pytest.mark.parametrize("cause", ["gradients_not_cleared", "nan_weight_spread"])
def test_a_run_of_the_sample_in_another_unit_is_itself(cause, sample, trace):
    row = failing(sample, cause)
    labelled = sample.trace(row["run_id"])
    log = trace(3.0 * labelled["loss"] + 20.0, 50 * labelled.steps)
    first = nearest(Observed(log), 50 * int(row["visible_step"]))[0]
    assert first.cause == cause
    assert first.runs["faulty"] == row["run_id"]
    assert first.distance < 0.05  # pieces end elsewhere by a part of a step
    assert set(first.runs) == set(first.curves) == {"faulty", "twin", "cured"}
    curve = first.curves["faulty"].finite
    expected = np.interp(curve.steps, 50 * labelled.steps, log["loss"])
    assert np.abs(curve.values - expected)[5:].mean() < 0.5


def test_what_ends_in_nan_is_like_no_run_that_does_not(sample, observed, falling):
    finite = {near.cause for near in nearest(observed(falling()), 200)}
    broken = falling()
    broken[200:] = np.nan
    causes = {near.cause for near in nearest(observed(broken), 200)}
    assert finite
    assert causes
    assert finite.isdisjoint(causes)


def test_too_few_rows_are_like_nothing(observed):
    assert nearest(observed([4.0, 3.0, np.nan]), 2) == []

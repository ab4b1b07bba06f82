"""How the runs of a plan are logged has nothing to do with what they are."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from trainwreck.evaluation.replay.logged.config import config_of
from trainwreck.evaluation.replay.logged.visible import TAIL
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.datasets.plans import resolve
from trainwreck.scenarios.spec.run_spec import Role


@pytest.fixture(scope="module")
def kinds():
    """Ids of the runs of `standard` by what they are."""
    found = defaultdict(list)
    for spec in resolve(["standard"])[1]:
        failing = spec.role is Role.FAULTY
        found["look-alike" if failing and spec.entry.look_alike else spec.role.value].append(spec.run_id)
    return found


@pytest.mark.parametrize(
    "of",
    [
        lambda one: one.intervals[0],
        lambda one: one.not_finite,
        lambda one: one.loss,
        lambda one: one.digits,
        lambda one: "grad_norm" in one.signals,
        lambda one: one.own_rows,
        lambda one: min(3, int((4.16 * one.scale + one.shift) / 7)),
    ],
)
def test_every_kind_of_run_is_logged_in_the_same_ways(kinds, of):
    counts = [Counter(of(config_of(run_id)) for run_id in ids) for ids in kinds.values() if len(ids) >= 100]
    assert len(counts) >= 3
    values = [value for value, count in sum(counts, Counter()).items() if count >= 50]
    table = np.array([[count[value] for value in values] for count in counts])
    assert chi2_contingency(table).pvalue > 1e-3


def test_the_constant_of_the_lab_is_the_setting():
    assert Setup().tail == TAIL

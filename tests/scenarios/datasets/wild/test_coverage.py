"""The plan `coverage`: every failing scenario on so many drawn setups, with those that `wild` has."""

from collections import Counter, defaultdict
from itertools import islice

import pytest

from trainwreck.scenarios.config import drawn
from trainwreck.scenarios.config.drawn import drawn_setups
from trainwreck.scenarios.datasets.wild import coverage as module
from trainwreck.scenarios.datasets.wild.draw import fitting
from trainwreck.scenarios.datasets.wild.plan import HEALTHY
from trainwreck.scenarios.spec.run_spec import Role

WELL_KNOWN = "mask_missing"  # on setups enough in `wild`
ON_ONE = "high_lr"


@pytest.fixture(scope="module")
def setups():
    return dict(islice(drawn_setups().items(), 4))


@pytest.fixture(scope="module")
def plan(setups):
    known = defaultdict(set, {WELL_KNOWN: {"wild/1000", "wild/1001"}, ON_ONE: {next(iter(setups))}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TIMES", 2)
        patch.setattr(module, "FAULTS", 5)
        patch.setattr(module, "_known", lambda: known)
        patch.setattr(drawn, "drawn_setups", lambda: setups)
        yield module.coverage()


def test_a_setup_has_few_faults_of_one_seed_and_its_healthy_runs(plan):
    groups = defaultdict(list)
    for spec in plan:
        groups[spec.base].append(spec)
    for specs in groups.values():
        faulty = [spec for spec in specs if spec.role is Role.FAULTY]
        assert 1 <= len(faulty) <= 5
        assert len({spec.scenario for spec in faulty}) == len(faulty)
        assert len({spec.seed for spec in faulty}) == 1
        assert Counter(spec.role for spec in specs)[Role.TWIN] == HEALTHY
        assert {spec.twin.run_id for spec in faulty} <= {spec.run_id for spec in specs}
    assert len(groups) == 4  # all that there are: many scenarios lack a setup


def test_no_scenario_is_on_more_setups_than_it_lacks(plan):
    counts = Counter(spec.scenario for spec in plan if spec.role is Role.FAULTY)
    assert max(counts.values()) <= 2
    assert counts[WELL_KNOWN] == 0
    assert counts[ON_ONE] <= 1


def test_the_rare_ones_come_first(plan, setups):
    fit = Counter(id for setup in setups.values() for id in fitting(setup))
    taken = {spec.scenario for spec in plan if spec.role is Role.FAULTY}
    alone = {id for id, number in fit.items() if number == 1 and not module.scenario(id).look_alike}
    assert alone <= taken


def test_nothing_is_asked_of_a_setup_that_has_it_in_wild(plan, setups):
    first = f"{drawn.KEY}={next(iter(setups))}"
    assert not [s for s in plan if s.scenario == ON_ONE and s.overrides == (first,)]

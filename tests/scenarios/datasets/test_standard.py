"""The plans of a release: splits, what is held out, balance, and a private test that only its salt draws."""

from collections import Counter

import pytest

from trainwreck.evaluation.constants import CALIBRATION_RUNS
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.datasets import named_plans
from trainwreck.scenarios.datasets.plans import resolve
from trainwreck.scenarios.spec.registry import scenarios
from trainwreck.scenarios.spec.run_spec import Role, Split

SPLITS = (Split.TRAIN, Split.TEST)


@pytest.fixture(scope="module")
def plan():
    return resolve(["standard"])[1]


@pytest.fixture(scope="module")
def secret():
    return resolve(["private"], "a salt")[1]


def failing(specs):
    return [s for s in specs if s.role is Role.FAULTY and not s.entry.look_alike]


def test_it_is_as_large_as_it_should_be(plan):
    assert len(plan) >= 1500
    assert sum(s.split is Split.CALIBRATION for s in plan) >= CALIBRATION_RUNS[0.01]
    assert {s.scenario for s in plan if s.split is Split.TEST} >= set(scenarios())


@pytest.mark.parametrize("split", SPLITS)
def test_no_base_has_more_failing_runs_than_others(plan, split):
    mine = [s for s in plan if s.split is split]
    bad = Counter(s.base for s in failing(mine))
    good = Counter(s.base for s in mine if s.role is Role.TWIN or (s.role is Role.FAULTY and s.entry.look_alike))
    assert all(good[base] >= count for base, count in bad.items())
    assert len(bad) > 20


def test_splits_share_no_seed(plan, secret):
    seeds = {split: {s.seed for s in plan if s.split is split} for split in Split}
    seeds[Split.PRIVATE] = {s.seed for s in secret if s.split is Split.PRIVATE}
    for a in seeds:
        for b in seeds:
            assert a is b or not seeds[a] & seeds[b]
    assert min(seeds[Split.PRIVATE]) >= named_plans.PUBLIC_SEEDS > max(max(seeds[s]) for s in Split if s in SPLITS)


def test_what_is_held_out_is_in_no_training_run(plan):
    train = [s for s in plan if s.split is Split.TRAIN and s.role is not Role.TWIN]
    test = [s for s in plan if s.split is Split.TEST and s.role is not Role.TWIN]
    causes = {s.scenario for s in failing(train)}
    levels = {(s.scenario, s.severity) for s in train}
    shapes = {(s.scenario, s.setup.model.width, s.setup.model.context) for s in train}
    assert not any(s.held_out for s in train)
    found = Counter(s.held_out for s in failing(test))
    assert min(found[what] for what in ("cause", "severity", "pair", "shape")) > 0
    for spec in failing(test):
        if spec.held_out == "cause":
            assert spec.scenario not in causes
        elif spec.held_out == "severity":
            assert spec.scenario in causes
            assert (spec.scenario, spec.severity) not in levels
        elif spec.held_out == "pair":
            assert spec.scenario not in causes
        elif spec.held_out == "shape":
            assert (spec.scenario, spec.setup.model.width, spec.setup.model.context) not in shapes
        else:
            assert (spec.scenario, spec.severity) in levels
    share = len({s.scenario for s in test if s.held_out == "cause"}) / len({s.scenario for s in failing(test)})
    assert 0.1 < share < 0.3


def test_a_twin_is_never_held_out(plan):
    assert not any(s.held_out for s in plan if s.role is Role.TWIN)


def test_the_lot_is_drawn_by_name_alone(monkeypatch):
    """A further scenario moves no other one."""
    before = {id: (named_plans.held_out_cause(id), named_plans.held_out_severity(id)) for id in scenarios()}
    some = dict(list(scenarios().items())[::2])
    monkeypatch.setattr(named_plans, "scenarios", lambda: some)
    assert all(before[id] == (named_plans.held_out_cause(id), named_plans.held_out_severity(id)) for id in some)


def test_the_private_test_is_the_test_under_other_seeds(plan, secret):
    def kinds(specs, split):
        return Counter((s.scenario, s.role, s.severity, s.overrides) for s in specs if s.split is split)

    assert kinds(secret, Split.PRIVATE) == kinds(plan, Split.TEST)
    assert not {s.run_id for s in secret if s.split is Split.PRIVATE} & {s.run_id for s in plan}
    assert resolve(["private"], "a salt")[1] == secret
    assert resolve(["private"], "another")[1] != secret


@pytest.mark.parametrize(("words", "salt"), [(["private"], None), (["private"], ""), (["standard"], "a salt")])
def test_a_salt_belongs_to_the_private_plan(words, salt):
    with pytest.raises(InputError, match="salt"):
        resolve(words, salt)


def test_full_is_standard_with_more_seeds(plan):
    everything = resolve(["full"])[1]
    assert len(everything) > 2 * len(plan)
    proven = {(id, size) for id, entry in scenarios().items() for size in entry.sizes}
    assert {(s.scenario, s.size) for s in everything if s.scenario in scenarios()} >= proven

"""Setups drawn by number: the stated distribution, what a scenario needs, and the file of those that train."""

import math
from collections import Counter

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.intervals import binomial_interval
from trainwreck.models.config import OptimizerKind, Placement
from trainwreck.scenarios.config import drawn as stored
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup, as_dict, leaves
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.datasets.resources import core_seconds
from trainwreck.scenarios.datasets.wild import draw
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import Role, family_of

MANY = 400


@pytest.fixture(scope="module")
def many():
    return [draw.drawn(number) for number in range(MANY)]


def test_a_number_is_always_the_same_setup(many):
    draw.shape.cache_clear()
    assert [draw.drawn(number) for number in range(20)] == many[:20]
    assert len({repr(setup) for _, _, setup in many}) == MANY


def test_shapes_are_within_what_is_stated():
    shapes = [draw.shape(number).settings for number in range(draw.SHAPES)]
    assert {s["model.width"] for s in shapes} == {32, 48, 64, 96, 128}
    for s in shapes:
        assert 1 <= s["model.layers"] <= 8
        assert s["model.width"] // s["model.heads"] >= 8
        assert 16 <= s["model.context"] <= 128
        assert draw.SHORTEST <= s["steps"] <= draw.LONGEST
        assert 10 <= s["evaluation.every"] <= s["steps"] / 4 + 1
        assert (256 if s["data.source"] == "text" else 64) <= s["model.vocab_size"] <= 4096
        assert core_seconds([stored.setup_of(s)] * 8) / 8 <= draw.MOST_SECONDS


def test_no_setup_costs_more_than_is_stated(many):
    costs = [core_seconds([setup] * draw.SIDE_BY_SIDE) / draw.SIDE_BY_SIDE for _, _, setup in many]
    assert max(costs) <= draw.MOST_SECONDS
    assert any(setup.distributed.ranks > 1 for _, _, setup in many)


@pytest.mark.parametrize(
    ("what", "share"),
    [
        (lambda s: s.schedule.decay.value == "cosine", 0.4),
        (lambda s: s.schedule.decay.value == "wsd", 0.2),
        (lambda s: s.dropout > 0, 0.15),
        (lambda s: s.schedule.final_fraction == 0, 1 / 3),
    ],
)
def test_shares_are_those_stated(what, share, many):
    count = sum(what(setup) for _, _, setup in many)
    low, high = binomial_interval(count, MANY, 0.999)
    assert low <= share <= high


def test_rates_are_log_uniform_and_shrink_with_the_width(many):
    scaled = [
        math.log(s.optimizer.lr / math.sqrt(64 / s.model.width))
        for _, _, s in many
        if s.optimizer.kind is OptimizerKind.ADAMW
    ]
    low, high = math.log(draw.LOWEST), math.log(draw.HIGHEST)
    assert low - 0.05 <= min(scaled)  # of two digits
    assert max(scaled) <= high + 0.05
    assert np.histogram(scaled, 4, (low, high))[0].min() > len(scaled) / 4 * 0.7


def test_what_the_leader_needs_is_kept_and_all_else_is_drawn(many):
    for leader, form, setup in many:
        have = leaves(as_dict(setup))
        assert leader in draw.leaders()
        assert all(have[path] == value for path, value in draw.needs(leader).items())
        assert leader in draw.fitting(setup)
        wanted = {p: v for p, v in form.settings.items() if p not in draw.needs(leader) and "init" not in p}
        assert {path: have[path] for path in wanted} == wanted
    assert {s.model.placement for _, _, s in many} == set(Placement)
    needed = {draw.needs(id).get("optimizer.kind", OptimizerKind.ADAMW.value) for id in draw.leaders()}
    assert {s.optimizer.kind.value for _, _, s in many} == needed >= {"adamw", "sgd"}


def test_another_objective_keeps_its_rows_and_has_a_model_and_a_rate_that_are_drawn(many):
    others = [(leader, setup) for leader, _, setup in many if draw.has_own_rows(setup)]
    assert {s.objective for _, s in others} == set(ObjectiveKind)
    for leader, setup in others:
        entry = scenario(leader)
        own = entry.base(healthy(entry.sizes[0]))
        assert (setup.objective, setup.data, setup.steps) == (own.objective, own.data, own.steps)
        assert setup.model.context == own.model.context
    policies = [s for _, s in others if s.objective is ObjectiveKind.POLICY]
    assert len({s.model.layers for s in policies}) > 2
    assert len({s.optimizer.lr for s in policies}) > 10


def test_a_new_scenario_moves_the_numbers_that_it_leads_and_no_other(many, monkeypatch):
    dropped = many[0][0]
    left = tuple(id for id in draw.leaders() if id != dropped)
    monkeypatch.setattr(draw, "leaders", lambda: left)
    draw.leader.cache_clear()
    draw.drawn.cache_clear()
    try:
        now = [draw.drawn(number) for number in range(40)]
    finally:
        monkeypatch.undo()
        draw.leader.cache_clear()
        draw.drawn.cache_clear()
    for before, after in zip(many, now, strict=False):
        assert (before == after) == (before[0] != dropped)


def test_the_usual_scenarios_need_nothing_and_some_need_much():
    counts = Counter(bool(draw.needs(id)) for id in draw.leaders())
    assert counts[False] > 100
    assert draw.needs("mask_missing") == {}
    assert draw.needs("loss_scale_collapse")["precision.format"] == "fp16"
    assert "optimizer.lr" not in draw.needs("high_lr")


def test_settings_go_to_json_and_back(many):
    for _, _, setup in many[:40]:
        assert stored.setup_of(stored.settings_of(setup)) == setup
    assert stored.settings_of(Setup()) == {}


def test_the_file_has_setups_as_they_are_drawn():
    """An edit of the distribution needs them measured again."""
    for name, setup in stored.drawn_setups().items():
        assert draw.drawn(int(name.removeprefix(stored.PREFIX)))[2] == setup


def test_a_run_takes_a_drawn_setup_by_name():
    name, setup = next(iter(stored.drawn_setups().items()))
    faulty, twin, _ = family_of("mask_missing", [3], overrides=[f"setup={name}"])
    assert faulty.setup == twin.setup == setup
    assert faulty.base == twin.base
    assert twin.role is Role.TWIN
    longer = family_of("mask_missing", [3], overrides=[f"setup={name}", "steps=777"])[0]
    assert longer.setup.steps == 777
    assert longer.setup.model == setup.model


def test_a_drawn_setup_has_a_size_of_its_own_and_is_named_once():
    names = list(stored.drawn_setups())[:2]
    with pytest.raises(InputError, match=r"size: 'small' is not allowed beside setup=wild/0; allowed: none"):
        family_of("mask_missing", [3], size=Size.SMALL, overrides=["setup=wild/0"])
    with pytest.raises(InputError, match=r"setting: 'setup' is given twice"):
        family_of("mask_missing", [3], overrides=[f"setup={name}" for name in names])


def test_a_name_that_is_not_there_is_refused():
    with pytest.raises(InputError, match=r"setup: 'wild/99999999' is not allowed; allowed: wild/NUMBER"):
        family_of("mask_missing", [3], overrides=["setup=wild/99999999"])

"""A scenario that came after a plan was made is in it when the plan is regenerated, and not before."""

import pytest

from trainwreck.scenarios.datasets import draws, standard_plan
from trainwreck.scenarios.spec.registry import scenarios

CACHED = (standard_plan.home, standard_plan.held_out_look_alikes)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch):
    """Plans of a version; what they drew is forgotten before and after."""

    def version(number: int) -> None:
        monkeypatch.setattr(draws, "PLANS", number)
        for drawn in CACHED:
            drawn.cache_clear()

    yield version
    monkeypatch.undo()
    for drawn in CACHED:
        drawn.cache_clear()


def test_a_later_scenario_is_in_later_plans_alone(later):
    new = {id for id, entry in scenarios().items() if entry.plans == 3}
    assert new
    assert max(entry.plans for entry in scenarios().values()) <= draws.PLANS + 1  # those that came since wait for it
    later(2)
    assert not new & {case.id for case in standard_plan.home()}
    assert not new & {*draws.planned()}
    later(3)
    assert {*draws.planned()} == {id for id, entry in scenarios().items() if entry.plans <= 3}
    later(4)
    assert {*draws.planned()} == {*scenarios()}
    assert {case.id for case in standard_plan.home()} >= {"benign_spike_recovers"}


def test_it_moves_nothing_that_is_held_out(later):
    later(2)
    before = standard_plan.held_out_look_alikes()
    assert len(before) == 4
    assert before <= {id for id, entry in scenarios().items() if entry.plans <= 2}

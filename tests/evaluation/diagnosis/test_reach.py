"""What an answer of nothing leaves open: the record is of these rules, and says what it was measured on."""

import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.diagnosis.reach import MEASURED, _recorded, measure, reach
from trainwreck.evaluation.replay.profiles import PROFILES
from trainwreck.scenarios.spec.registry import scenarios

RUNS = 2  # of each failure in the sample


def test_the_record_is_what_the_rules_find_in_the_sample():
    recorded = _recorded()["sample"]
    assert measure(load(sample())) == recorded
    for profile in MEASURED:
        assert len(recorded["found"][profile]) == 8
        assert {runs for _, runs in recorded["found"][profile].values()} == {RUNS}
        assert set(recorded["wrong"][profile]) == {"healthy", "look-alike"}


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_has_an_answer(profile):
    found = reach(profile)
    assert found.profile in MEASURED
    assert found.tried > 40
    assert {*found.never, *found.sometimes} <= set(scenarios())
    assert not {*found.never} & {*found.sometimes}


def test_richer_profiles_leave_less_open():
    never = {profile: set(reach(profile).never) for profile in MEASURED}
    assert len(never["full"]) < len(never["common"]) < len(never["minimal"])

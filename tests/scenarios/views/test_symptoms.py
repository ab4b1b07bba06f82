"""Symptoms come from the signatures, and every look-alike says what it is taken for."""

import pytest

from trainwreck.scenarios import shapes
from trainwreck.scenarios.spec.registry import CatalogueError, register, scenario, scenarios
from trainwreck.scenarios.spec.scenario import Family
from trainwreck.scenarios.views.symptoms import catalogue_facts, picture, symptoms, vocabulary


@pytest.mark.parametrize("entry", [one for one in scenarios().values() if one.look_alike], ids=lambda one: one.id)
def test_a_look_alike_imitates_failures_of_the_catalogue(entry):
    assert entry.imitates
    for name in entry.imitates:
        assert not scenario(name).look_alike


def test_only_look_alikes_imitate():
    assert {one.id for one in scenarios().values() if one.imitates} == {
        one.id for one in scenarios().values() if one.family in (Family.LOOK_ALIKE, Family.LOGGING)
    }
    taken = scenario("benign_single_spike")
    wrong = type("Wrong", (type(taken),), {"imitates": (), "__module__": type(taken).__module__})
    with pytest.raises(CatalogueError, match="imitates"):
        register(wrong)


def test_symptoms_are_the_shapes_that_the_signature_asks_for():
    assert symptoms(scenario("mask_zeroed")) == ["plateaus_above", "pinned_at", "flat_over_position"]
    assert symptoms(scenario("lr_jump")) == ["jumps_in_one_step"]  # smooth, a part of it, is no shape
    assert symptoms(scenario("loader_stall")) == []


def test_a_look_alike_has_the_symptoms_of_what_it_imitates():
    entry = scenario("benign_single_spike")
    assert set(symptoms(entry)) == {name for other in entry.imitates for name in symptoms(scenario(other))}


def test_every_shape_has_a_line_and_most_a_picture():
    words = vocabulary()
    assert {"diverges", "collapses_to_zero"} <= set(words)
    assert not {"smooth", "turning_point", "agreement", "np"} & set(words)
    assert all(line.endswith(".") for line in words.values())
    assert picture("spikes_and_recovers").splitlines()[-1].strip() == r"|_____/  \____"
    assert shapes.diverges.__doc__.splitlines()[0] == words["diverges"]


def test_the_facts_cover_the_catalogue():
    facts = catalogue_facts()
    assert set(facts["symptoms"]) == set(scenarios())
    assert len(facts["unproven"]) == 11
    assert all(set(names) <= set(facts["shapes"]) for names in facts["symptoms"].values())

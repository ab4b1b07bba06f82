"""A run that ends before its fault or its cure begins is refused, with a length that is enough for any seed."""

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.datasets.plans import resolve
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.spec.scenario import MidRun, Scenario


@pytest.mark.parametrize("name", scenarios())
def test_from_the_stated_length_on_onset_and_cure_lie_within_every_run(name):
    entry = scenarios()[name]
    for knobs in entry.severities.values() or [entry.knobs]:
        for cured in (False,) if entry.look_alike else (False, True):
            enough = entry.enough_steps(knobs, cured=cured)
            for steps in (enough, enough + 1, enough + 7, 2 * enough, 10 * enough):
                for seed in range(4):
                    last = entry.cure_step(knobs, seed, steps) if cured else entry.onset_step(seed, steps)
                    assert last < steps


def test_it_is_the_least_such_length():
    """One step less, and some seed's cure comes too late."""
    for name in ("high_lr", "ema_misused", "mask_missing", "weight_decay_too_high"):
        entry = scenario(name)
        knobs = entry.knobs_of(entry.default_severity())
        steps = entry.enough_steps(knobs, cured=True) - 1
        latest = 0 if entry.onset is None else int(entry.onset.latest * steps)
        assert latest + entry.cure_delay(knobs) >= steps


@pytest.mark.parametrize(
    ("name", "steps", "at"), [("high_lr", 40, 47), ("ema_misused", 100, 120), ("dead_relu", 40, 40)]
)
def test_a_cure_at_or_beyond_the_end_is_refused(name, steps, at):
    faulty, twin, cured = family_of(name, [0], overrides=[f"steps={steps}"])
    faulty.check_steps()
    twin.check_steps()
    entry = faulty.entry
    enough = entry.enough_steps(faulty.knobs, cured=True)
    complaint = (
        f"steps: {steps} is not allowed for {name}; on seed 0 its cure is at step {at}; allowed: {enough} or more"
    )
    with pytest.raises(InputError) as error:
        cured.check_steps()
    assert str(error.value) == complaint
    for spec in family_of(name, [0], overrides=[f"steps={enough}"]):
        spec.check_steps()
    with pytest.raises(InputError) as error:
        resolve([f"scenario={name}", f"steps={steps}"])
    assert str(error.value) == complaint


def test_an_onset_at_the_end_is_refused(monkeypatch):
    """No scenario of the catalogue has one; one of a file may."""
    monkeypatch.setattr(type(scenario("mask_missing")), "onset_step", lambda self, seed, steps: 50)
    (faulty,) = family_of("mask_missing", [0], overrides=["steps=50"], roles=(Role.FAULTY,))
    with pytest.raises(
        InputError, match="steps: 50 is not allowed for mask_missing; on seed 0 its onset is at step 50"
    ):
        faulty.check_steps()


def test_of_a_pair_the_later_one_counts():
    pair = scenario("corrupt_tokens+high_lr")
    knobs = pair.knobs_of(pair.default_severity())
    parts = {part.id: part.enough_steps(getattr(knobs, part.id), cured=True) for part in pair.parts}
    assert pair.enough_steps(knobs, cured=True) == max(parts.values()) == parts["high_lr"]
    with pytest.raises(InputError, match="steps: 40 is not allowed for corrupt_tokens"):
        family_of("corrupt_tokens+high_lr", [0], overrides=["steps=40"])[2].check_steps()


def test_an_onset_may_be_at_the_very_end():
    class Late(Scenario):
        onset = MidRun(0.9, 1.0)
        cure_after = 3

    assert Late().enough_steps(None, cured=True) > 3

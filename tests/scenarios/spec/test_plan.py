"""Run ids are functions of what is run; twins are shared by all scenarios of one base."""

import dataclasses
import json
import subprocess
import sys

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config.sizes import Size
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.spec.run_spec import Role, RunSpec, Split, family_of, unique
from trainwreck.scenarios.spec.scenario import Severity

FAULTY = RunSpec("high_lr", Role.FAULTY, 3, Size.MICRO, Severity.CLEAR, ("steps=50",))


def test_the_same_run_has_the_same_id_in_another_process():
    code = "import sys, json; from trainwreck.scenarios.spec.run_spec import RunSpec\n"
    code += "print(RunSpec.from_json(json.loads(sys.argv[1])).run_id)"
    words = [sys.executable, "-c", code, json.dumps(FAULTY.to_json())]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() == FAULTY.run_id


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 4},
        {"role": Role.TWIN},
        {"role": Role.CURED},
        {"severity": Severity.SUBTLE},
        {"size": Size.DEEP},
        {"overrides": ("steps=51",)},
        {"overrides": ("fault.factor=2", "steps=50")},
        {"scenario": "stale_optimizer_state"},
    ],
    ids=str,
)
def test_another_run_has_another_id(changed):
    assert dataclasses.replace(FAULTY, **changed).run_id != FAULTY.run_id


def test_another_version_of_a_scenario_is_another_run_but_not_another_twin(monkeypatch):
    before, twin = dataclasses.replace(FAULTY).run_id, FAULTY.twin.run_id
    monkeypatch.setattr(type(scenario("high_lr")), "version", 99)
    assert dataclasses.replace(FAULTY).run_id != before
    assert dataclasses.replace(FAULTY.twin).run_id == twin


def test_an_override_that_says_what_is_so_anyway_changes_no_id():
    knobs = scenario("high_lr").knobs_of(Severity.CLEAR)
    respelt = dataclasses.replace(FAULTY, overrides=(f"fault.factor={knobs.factor}", "steps=50"))
    assert respelt.run_id == FAULTY.run_id


def test_the_id_says_nothing_of_split_and_label():
    assert dataclasses.replace(FAULTY, split=Split.CALIBRATION).run_id == FAULTY.run_id
    assert "high_lr" not in FAULTY.run_id


@pytest.mark.parametrize("name", scenarios())
def test_a_spec_survives_json(name):
    for spec in family_of(name, [0, 7], overrides=["steps=40"]):
        again = RunSpec.from_json(json.loads(json.dumps(spec.to_json())))
        assert again == spec
        assert again.run_id == spec.run_id


def test_scenarios_of_one_base_share_their_twins():
    bases: dict[tuple[str, int], set[str]] = {}
    for name in scenarios():
        for spec in family_of(name, range(2), roles=(Role.TWIN,)):
            bases.setdefault((spec.base, spec.seed), set()).add(spec.run_id)
    assert all(len(ids) == 1 for ids in bases.values())
    assert len(bases) < 2 * len(scenarios())  # some base is shared


def test_twins_differ_by_base_and_seed():
    ids = [
        family_of(name, [seed], roles=(Role.TWIN,))[0].run_id for name in ("high_lr", "mask_missing") for seed in (0, 1)
    ]
    assert len(set(ids)) == 4


def test_a_twin_keeps_the_settings_and_loses_the_fault():
    spec = dataclasses.replace(FAULTY, overrides=("fault.factor=2", "steps=50"))
    assert spec.twin.setup == spec.setup
    assert spec.twin.onset is None
    assert spec.twin.job().changes == ()
    assert spec.twin == dataclasses.replace(spec, severity=Severity.SEVERE).twin
    assert spec.base == spec.twin.base


def test_faulty_and_cured_runs_share_fault_and_onset():
    cured = dataclasses.replace(FAULTY, role=Role.CURED)
    assert cured.onset == FAULTY.onset
    assert FAULTY.cure_step is None
    steps = [at.step for at in cured.job().changes]
    assert steps == [cured.onset, cured.cure_step]
    assert [at.step for at in FAULTY.job().changes] == [FAULTY.onset]


@pytest.mark.parametrize("name", scenarios())
def test_a_family_has_the_roles_that_there_are(name):
    entry = scenario(name)
    roles = [spec.role for spec in family_of(name, [5])]
    expected = [Role.FAULTY]
    if not entry.own_twin:
        expected.append(Role.TWIN)
    if not entry.look_alike:
        expected.append(Role.CURED)
    assert roles == expected


def test_a_family_has_the_scenarios_own_size_and_severity():
    assert family_of("no_warmup", [0])[0].size is Size.DEEP
    assert family_of("high_lr", [0])[0].severity is Severity.CLEAR
    assert family_of("mask_missing", [0])[0].severity is None


def test_a_severity_without_a_scale_is_refused():
    with pytest.raises(InputError, match="severity: 'clear' is not allowed for mask_missing"):
        family_of("mask_missing", [0], severity=Severity.CLEAR)


def test_the_order_of_overrides_does_not_matter():
    one, other = (family_of("high_lr", [0], overrides=o)[0] for o in (["steps=9", "tail=1"], ["tail=1", "steps=9"]))
    assert one == other


def test_unique_keeps_the_first_and_prefers_test_runs():
    calibration = dataclasses.replace(FAULTY.twin, split=Split.CALIBRATION)
    other = dataclasses.replace(FAULTY, seed=9)
    assert unique([FAULTY, other, FAULTY]) == [FAULTY, other]
    for specs in ([calibration, FAULTY.twin], [FAULTY.twin, calibration]):
        assert [spec.split for spec in unique(specs)] == [Split.TEST]


def test_a_changed_setup_knob_or_version_is_another_identity(monkeypatch):
    identity = FAULTY.identity
    assert dataclasses.replace(FAULTY, seed=8).identity == identity
    for changed in ({"overrides": ("steps=51",)}, {"severity": Severity.SEVERE}):
        assert dataclasses.replace(FAULTY, **changed).identity != identity
    monkeypatch.setattr(type(scenario("high_lr")), "version", 99)
    assert dataclasses.replace(FAULTY).identity != identity

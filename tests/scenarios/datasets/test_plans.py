"""Named plans, plan files and sweeps."""

import json

import pytest

from trainwreck.evaluation.constants import CALIBRATION_RUNS
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.learning.training import FOLDS
from trainwreck.models.config import Format
from trainwreck.scenarios.config.settings import SourceKind, replaced
from trainwreck.scenarios.config.sizes import Size
from trainwreck.scenarios.datasets.plans import PLANS, member, planned, resolve
from trainwreck.scenarios.datasets.small_plans import DEMO, DEMO_ON_TEXT, TRAIN_SEEDS
from trainwreck.scenarios.spec.proofs import recorded
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.spec.run_spec import CALIBRATION_SEEDS, Role, Split, unique, with_calibration
from trainwreck.scenarios.spec.scenario import Severity


@pytest.mark.parametrize("plan", PLANS)
def test_a_named_plan_is_whole(plan):
    name, specs = resolve([plan])
    ids = {spec.run_id for spec in specs}
    assert name == plan
    assert len(ids) == len(specs)
    assert all(spec.entry.own_twin or spec.twin.run_id in ids for spec in specs)
    assert unique(specs) == specs


@pytest.mark.parametrize("plan", ["demo", "sample"])
def test_a_plan_with_bf16_products_has_them_where_there_was_float32(plan):
    (_, before), (name, specs) = resolve([plan]), resolve([plan], products="bf16")
    assert name == f"{plan}-bf16"
    formats = [(old.setup.precision.format, new.setup.precision.format) for old, new in zip(before, specs, strict=True)]
    assert {new for old, new in formats if old is Format.FP32} == {Format.BF16}
    assert all(new is old for old, new in formats if old is not Format.FP32)
    others = [(old, new) for old, new in zip(before, specs, strict=True) if old.setup.precision.format is Format.FP32]
    assert all(replaced(old.setup, precision__format=Format.BF16) == new.setup for old, new in others)
    ids = {spec.run_id for spec in specs}
    assert len(ids) == len(specs)
    assert all(spec.entry.own_twin or spec.twin.run_id in ids for spec in specs)


def test_products_that_there_are_not_are_refused():
    with pytest.raises(InputError, match=r"products: 'fp16' is not allowed; .*allowed: fp32, bf16"):
        resolve(["demo"], products="fp16")


@pytest.mark.parametrize("plan", PLANS)
def test_calibration_seeds_are_apart_and_eight_a_base_or_more(plan):
    specs = resolve([plan])[1]
    calibration = [spec for spec in specs if spec.split is Split.CALIBRATION]
    tested = [spec for spec in specs if spec.split is Split.TEST]
    assert {spec.seed for spec in calibration} >= set(CALIBRATION_SEEDS)
    assert not {spec.seed for spec in tested} & {spec.seed for spec in calibration}
    assert all(spec.role is Role.TWIN or spec.entry.look_alike for spec in calibration)
    for base in {spec.base for spec in tested if not spec.entry.own_twin}:
        assert sum(spec.base == base for spec in calibration) >= len(CALIBRATION_SEEDS) == 8


def test_the_demo_has_its_failures_and_look_alikes_and_one_on_real_text():
    specs = resolve(["demo"])[1]
    assert {spec.scenario for spec in specs if spec.role is Role.FAULTY} == set(DEMO)
    assert sum(scenarios()[name].look_alike for name in DEMO) == 4
    on_text = {spec.scenario for spec in specs if spec.setup.data.source is SourceKind.TEXT}
    assert on_text == {DEMO_ON_TEXT[0]}


def test_the_demo_calibrates_on_as_many_healthy_runs_as_a_budget_of_five_per_cent_needs():
    specs = resolve(["demo"])[1]
    assert sum(spec.split is Split.CALIBRATION for spec in specs) >= CALIBRATION_RUNS[0.05]


def test_every_failure_and_look_alike_of_the_demo_is_proven_as_it_is_run():
    proven = {(row["scenario"], row["identity"]) for row in recorded() if row["proven"]}
    for spec in resolve(["demo"])[1]:
        if spec.role is not Role.TWIN:
            assert (spec.scenario, spec.identity) in proven


def test_a_sweep_is_every_combination():
    name, specs = resolve(["scenario=high_lr,mask_missing", "seed=range(3)", "steps=120,150"])
    faulty = [spec for spec in specs if spec.role is Role.FAULTY]
    assert name == "sweep"
    assert {(s.scenario, s.seed, s.setup.steps) for s in faulty} == {
        (scenario, seed, steps) for scenario in ("high_lr", "mask_missing") for seed in range(3) for steps in (120, 150)
    }
    assert len(faulty) == 12
    # four bases: two scenarios at two lengths
    assert sum(spec.split is Split.CALIBRATION for spec in specs) == 4 * 8


def test_a_sweep_over_severities_and_sizes():
    specs = resolve(["scenario=high_lr", "severity=subtle,severe", "size=micro,small", "steps=120"])[1]
    faulty = {(spec.severity, spec.size) for spec in specs if spec.role is Role.FAULTY}
    assert faulty == {(v, z) for v in (Severity.SUBTLE, Severity.SEVERE) for z in (Size.MICRO, Size.SMALL)}
    assert {spec.seed for spec in specs if spec.split is Split.TEST} == {0}


def test_severities_share_their_twin():
    specs = resolve(["scenario=high_lr", "severity=subtle,clear,severe", "steps=120"])[1]
    assert sum(spec.role is Role.TWIN and spec.split is Split.TEST for spec in specs) == 1


def test_one_that_is_its_own_twin_has_no_calibration():
    own = next(name for name, entry in scenarios().items() if entry.own_twin)
    assert [spec.role for spec in with_calibration(own, range(2))] == [Role.FAULTY] * 2
    assert scenario(own).look_alike


def test_a_plan_file_is_the_same_runs(tmp_path):
    specs = resolve(["scenario=high_lr,benign_clean_resume", "steps=120"])[1]
    path = tmp_path / "mine.json"
    content = {"format": "trainwreck-plan", "runs": [spec.to_json() for spec in specs]}
    path.write_text(json.dumps(content), encoding="utf-8")
    assert resolve([str(path)]) == ("mine", specs)


def test_the_parts_of_a_plan_are_the_plan():
    words = ["scenario=high_lr,mask_missing,no_warmup", "seed=range(2)", "steps=120"]
    whole = resolve(words)[1]
    parts = [resolve(words, part=f"{number}/3")[1] for number in (1, 2, 3)]
    assert len({spec.base for spec in whole}) == 3
    assert all(parts)
    assert sorted(spec.run_id for part in parts for spec in part) == sorted(spec.run_id for spec in whole)
    for part in parts:
        ids = {spec.run_id for spec in part}
        assert {spec.twin.run_id for spec in part} <= ids
        others = [spec for spec in whole if spec.run_id not in ids]
        assert not {spec.base for spec in part} & {spec.base for spec in others}
        assert [spec for spec in whole if spec.run_id in ids] == part


@pytest.mark.parametrize("part", ["0/2", "3/2", "1/4", "1", "1/2/3", "-1/2", "a/b", "", "1/0", "1 / 2"])
def test_a_part_that_is_none(part):
    with pytest.raises(InputError) as refusal:
        resolve(["scenario=high_lr,mask_missing,no_warmup", "steps=120"], part=part)
    assert str(refusal.value).startswith(
        f"part: {part!r} is not allowed; allowed: K/N with K of 1 to N, and N at most 3,"
    )


def test_member():
    assert member(Severity, "severity", None) is None
    assert member(Severity, "severity", "clear") is Severity.CLEAR
    with pytest.raises(InputError, match="severity: 'claer' is not allowed; did you mean 'clear'"):
        member(Severity, "severity", "claer")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "none given"),
        (["dmeo"], "did you mean 'demo'"),
        (["demo", "seed=1"], "one name, one file"),
        (["seed=1"], "without scenario"),
        (["scenario=mask_mising"], "did you mean 'mask_missing'"),
        (["scenario=high_lr", "seed=x"], "seed: 'x'"),
        (["scenario=high_lr", "seed=range(0)"], "no runs"),
        (["scenario=mask_missing", "severity=clear"], "no scale"),
        (["scenario=high_lr", "size=huge"], "size: 'huge'"),
        (["nowhere.json"], "missing"),
    ],
)
def test_a_wrong_plan_is_one_line(words, message):
    with pytest.raises(InputError, match=message) as refusal:
        resolve(words)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("plan", "runs"), [("sample", 30), ("demo", 18)])
def test_small_plans_have_a_train_split_that_a_detector_can_learn_from(plan, runs):
    specs = resolve([plan])[1]
    train = [spec for spec in specs if spec.split is Split.TRAIN]
    others = [spec for spec in specs if spec.split is not Split.TRAIN]
    failing = [spec for spec in train if spec.role is Role.FAULTY and not spec.entry.look_alike]
    assert len(train) == runs
    assert (
        {spec.seed for spec in failing} == {spec.seed for spec in train if spec.role is Role.TWIN} == set(TRAIN_SEEDS)
    )
    assert len(TRAIN_SEEDS) >= FOLDS
    assert len({spec.scenario for spec in failing}) >= 2
    assert not {spec.seed for spec in others} & set(TRAIN_SEEDS)
    assert not any(spec.held_out for spec in train)
    learnt = {spec.scenario for spec in failing}
    for spec in others:
        if spec.role is not Role.TWIN and not spec.entry.look_alike:
            assert ("cause" in spec.held_out.split("+")) == (spec.scenario not in learnt)
    assert any("cause" in spec.held_out for spec in others)


def test_what_a_sweep_will_train_is_told_before():
    swept = ["scenario=mask_missing,benign_clean_resume", "seed=range(2)", "optimizer.lr=0.01,0.02"]
    assert planned(resolve(swept)[1]) == (
        "32 runs: 4 faulty, 4 look-alike, 4 twins, 4 cured, 16 healthy runs more (8 a base, for visible steps and "
        "thresholds); 2 bases"
    )

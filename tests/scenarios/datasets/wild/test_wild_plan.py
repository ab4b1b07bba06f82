"""The plan `wild`: groups on drawn setups, splits, what is held out, and the mix of outcomes."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from trainwreck.evaluation.dataset.dataset import load_labels
from trainwreck.evaluation.dataset.schema import UNDER_FAULT, RunKind
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import read_json
from trainwreck.evaluation.intervals import binomial_interval
from trainwreck.scenarios.config import bases, drawn
from trainwreck.scenarios.config.drawn import drawn_setups
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.datasets.draws import held_out_cause
from trainwreck.scenarios.datasets.generate import TOLERANCE, with_tolerances
from trainwreck.scenarios.datasets.plans import resolve
from trainwreck.scenarios.datasets.standard_plan import Case
from trainwreck.scenarios.datasets.wild import outcomes
from trainwreck.scenarios.datasets.wild import plan as wild_plan
from trainwreck.scenarios.datasets.wild.draw import leaders
from trainwreck.scenarios.datasets.wild.plan import CALIBRATION, FAULTY, HEALTHY
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import Role, Split

GROUPS = 12
STANDARD = Path(__file__).parents[4] / "results/standard"


@pytest.fixture(scope="module")
def plan():
    name, specs = resolve(["wild"], runs=GROUPS * (FAULTY + HEALTHY), mix="even")
    assert name == "wild"
    return specs


@pytest.fixture(scope="module")
def groups(plan):
    found = {}
    for spec in plan:
        found.setdefault(spec.base, []).append(spec)
    return found


def test_every_setup_has_its_faulty_runs_and_twice_as_many_healthy_ones(plan, groups):
    assert len(groups) == GROUPS
    assert len({spec.run_id for spec in plan}) == len(plan)
    for specs in groups.values():
        roles = Counter(spec.role for spec in specs)
        assert roles == {Role.FAULTY: FAULTY, Role.TWIN: HEALTHY}
        assert len({spec.seed for spec in specs if spec.role is Role.TWIN}) == HEALTHY
        faulty = [spec for spec in specs if spec.role is Role.FAULTY]
        assert len({spec.scenario for spec in faulty}) == FAULTY
        assert {spec.twin.run_id for spec in faulty} <= {spec.run_id for spec in specs}


def test_half_of_the_setups_are_learnt_from_and_a_test_setup_has_its_calibration_runs(groups):
    splits = [Counter(spec.split for spec in specs) for specs in groups.values()]
    assert splits.count({Split.TRAIN: FAULTY + HEALTHY}) == GROUPS / 2
    assert splits.count({Split.TEST: FAULTY + HEALTHY - CALIBRATION, Split.CALIBRATION: CALIBRATION}) == GROUPS / 2


def test_no_training_run_has_what_is_held_out_and_every_test_run_says_what_is(plan):
    for spec in plan:
        if spec.split is Split.TRAIN and spec.role is Role.FAULTY:
            assert spec.entry.look_alike or not held_out_cause(spec.scenario)
        if spec.split is Split.TEST:
            assert "base" in spec.held_out


def test_runs_begin_and_are_cured_within_their_setup(plan):
    for spec in plan:
        if spec.role is Role.FAULTY:
            spec.check_steps()
            assert spec.onset is not None
            assert spec.onset < spec.setup.steps


def test_a_fault_whose_tokens_a_setup_lacks_is_not_in_it(monkeypatch):
    """The language that it changes to has a token that masks take the place of."""
    denoising = bases.denoiser(healthy(Size.MICRO))
    monkeypatch.setattr(drawn, "drawn_setups", lambda: {"wild/7": denoising})
    assert not wild_plan._is_possible(Case("tokenizer_mismatch", None, ("setup=wild/7",)), 3)
    assert wild_plan._is_possible(Case("high_lr", None, ("setup=wild/7",)), 3)


@pytest.mark.parametrize(
    ("runs", "mix", "message"),
    [
        (12, None, "runs: 12 is not allowed; allowed: 24 to"),
        (10**6, None, "runs: 1000000 is not allowed"),
        (None, "0.5,0.5", "mix: '0.5,0.5' is not allowed; allowed: even, or shares of non-finite, stuck, quiet"),
        (None, "1,0,0", "mix: '1,0,0' is not allowed"),
        (None, "a,b,c", "mix: 'a,b,c' is not allowed"),
    ],
)
def test_a_plan_that_can_not_be_is_refused(runs, mix, message):
    with pytest.raises(InputError, match=message):
        resolve(["wild"], runs=runs, mix=mix)


@pytest.mark.parametrize("option", [{"runs": 48}, {"mix": "even"}])
def test_other_plans_have_no_such_option(option):
    with pytest.raises(InputError, match=r"not allowed beside plan 'demo'; allowed: wild"):
        resolve(["demo"], **option)


def test_it_is_planned_in_one_thread(monkeypatch):
    threads = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    wild_plan.wild(24)
    assert set(threads) == {1}


def test_there_are_setups_for_all_runs_of_the_default():
    assert len(drawn_setups()) >= 2


# Outcomes


def row(scenario, kind="failing", outcome="damaged", gap=1.0, final=3.0, twin="t", vocabulary=64, objective=None):
    context = json.dumps({"model": {"vocab_size": vocabulary}} | ({"objective": objective} if objective else {}))
    return {"scenario": scenario, "kind": kind, "outcome": outcome, "final_gap": gap, "final_loss": final,
            "twin_id": twin, "context": context}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"outcome": "non_finite", "gap": np.nan}, "non-finite"),
        ({"gap": 1.1}, "stuck"),  # the twin's progress is ln(64) - 2 = 2.16
        ({"gap": 1.0}, "quiet"),
        ({"gap": 1.1, "vocabulary": 4096}, "quiet"),
        ({"gap": 0.2, "objective": "policy"}, "stuck"),  # the twin's progress is 1 - 0.6
        ({"gap": 0.1, "objective": "policy"}, "quiet"),
        ({"outcome": "recovered", "gap": 0.0}, "quiet"),
        ({"kind": "latent", "gap": 0.0}, "latent"),
        ({"kind": "not shown", "gap": 0.0}, "not shown"),
    ],
)
def test_the_outcome_of_a_run(change, expected):
    final = 0.6 if change.get("objective") else 2.0
    twin = row("", kind=RunKind.HEALTHY.value, outcome="recovered", gap=0.0, final=final, twin="")
    runs = pd.DataFrame([row("a", **change), twin], index=["r", "t"])
    assert outcomes.outcomes(runs).to_dict() == {"r": expected}
    assert outcomes.table(runs).loc["a"].to_dict() == {name: int(name == expected) for name in outcomes.OUTCOMES}


@pytest.fixture
def counts(monkeypatch):
    known = {
        "breaks": {"non-finite": 30, "stuck": 2, "quiet": 2},
        "sticks": {"non-finite": 2, "stuck": 30, "quiet": 2},
        "harms": {"quiet": 30, "stuck": 4, "latent": 6},
        "hides": {"quiet": 10, "latent": 20, "not shown": 10},
    }
    monkeypatch.setattr(outcomes, "_counts", lambda: known)
    return known


def test_the_mix_is_met_in_expectation_and_no_scenario_is_left_out(counts):
    chosen = outcomes.weights((0.4, 0.3, 0.3), list(counts))
    shares = np.array([outcomes._shares(id) for id in counts])
    expected = np.array([chosen[id] for id in counts]) @ shares
    np.testing.assert_allclose(expected[:3] / expected[:3].sum(), (0.4, 0.3, 0.3), atol=1e-3)
    assert min(chosen.values()) > 0
    assert sum(chosen.values()) == pytest.approx(1)


def test_the_mix_that_comes_by_itself_leaves_all_scenarios_alike(counts):
    even = np.mean([outcomes._shares(id) for id in counts], 0)[:3]
    chosen = outcomes.weights(tuple(even / even.sum()), list(counts))
    np.testing.assert_allclose(list(chosen.values()), 1 / len(counts), atol=1e-4)


def test_a_mix_that_no_weights_give_is_refused(counts):
    with pytest.raises(InputError, match="mix"):
        outcomes.weights((0.998, 0.001, 0.001), list(counts))


def test_a_scenario_never_tried_is_taken_for_the_average_one(counts):
    rows = np.array([[row.get(name, 0) for name in outcomes.OUTCOMES] for row in counts.values()], float)
    np.testing.assert_allclose(outcomes._shares("new"), rows.sum(0) / rows.sum())


def test_the_mix_is_the_default_where_scenarios_were_tried_often_enough(monkeypatch):
    failing = [id for id in leaders() if not scenario(id).look_alike]
    for each, expected in ((1, None), (2, None), (3, outcomes.MIX), (40, outcomes.MIX)):
        known = {id: {"stuck": each} for id in failing} | {"benign_single_spike": {"not shown": 10_000}}
        monkeypatch.setattr(outcomes, "_counts", lambda known=known: known)
        assert outcomes.shares_of(None) == expected


def test_the_recorded_outcomes_are_those_of_the_published_labels():
    runs = load_labels(STANDARD).runs
    failing = runs[runs["kind"].isin(UNDER_FAULT)]
    single = failing[~failing["scenario"].str.contains("+", regex=False)]
    recorded = read_json(outcomes.FILE)["counts"]
    assert len(single) < len(failing)  # a pair is none of either scenario
    assert {id: sum(row.values()) for id, row in recorded.items()} == single["scenario"].value_counts().to_dict()
    assert outcomes.table(runs).to_dict("index") == recorded


def test_the_default_plan_has_the_mix_in_expectation():
    mix = outcomes.shares_of(None)
    drawn_ones = [spec for place, name in enumerate(list(drawn_setups())[:40]) for spec in faulty_of(place, name, mix)]
    found = sum(outcomes._shares(spec.scenario) for spec in drawn_ones)[:3]
    np.testing.assert_allclose(found / found.sum(), outcomes.MIX, atol=0.1)
    even = [spec for place, name in enumerate(list(drawn_setups())[:40]) for spec in faulty_of(place, name, None)]
    usual = sum(outcomes._shares(spec.scenario) for spec in even)[:3]
    assert usual[0] / usual.sum() < 0.1


def faulty_of(place, name, mix):
    failing = [id for id in leaders() if not scenario(id).look_alike]
    often = outcomes.weights(mix, failing) if mix else None
    specs = wild_plan.group(place, name, often)
    return [spec for spec in specs if spec.role is Role.FAULTY and not scenario(spec.scenario).look_alike]


def test_families_with_their_exact_intervals():
    counts = pd.DataFrame(
        [[3, 0, 1, 0, 0], [0, 1, 0, 2, 3], [0, 0, 0, 0, 50]],
        ["corrupt_tokens", "mask_missing", "benign_single_spike"], list(outcomes.OUTCOMES),
    )  # fmt: skip
    found = outcomes.families(counts)
    assert found["runs"].tolist() == [10, 6, 4]
    assert set(found.index) == {"all", *(scenario(id).family.value for id in ("mask_missing", "corrupt_tokens"))}
    assert found.loc["all", "harmed"] == 0.5
    assert (found.loc["all", "low"], found.loc["all", "high"]) == pytest.approx(binomial_interval(5, 10))


# Tolerances


def test_on_a_drawn_setup_the_tolerance_is_the_range_of_healthy_ends():
    drawn, own = json.dumps({"overrides": ["setup=wild/0"]}), json.dumps({"overrides": ["steps=3"]})
    healthy = [
        {"kind": "healthy", "base": "b", "final_loss": loss, "tolerance": None, "spec": drawn}
        for loss in (2.0, 2.3, 2.1)
    ]
    faulty = {"kind": "failing", "base": "b", "final_loss": 9.0, "tolerance": 0.07, "spec": drawn}
    rows = with_tolerances([*healthy, faulty, {**faulty, "spec": own}, {**faulty, "base": "c"}])
    assert [row["tolerance"] for row in rows[:3]] == [None] * 3
    assert [row["tolerance"] for row in rows[3:]] == [pytest.approx(0.3), 0.07, TOLERANCE]

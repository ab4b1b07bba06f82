"""Signatures in the runs table: of every run under a fault against its own twin, and never of a run that is another."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from trainwreck.evaluation.dataset.schema import Harm, RunKind
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.labels.kinds import outcome_of
from trainwreck.evaluation.labels.labelling import relabel
from trainwreck.scenarios.datasets.generate import generate, harm_of
from trainwreck.scenarios.datasets.signatures import signatures, with_signatures
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.spec.run_spec import Role, family_of, unique

ROOT = Path(__file__).resolve().parents[3]
SMALL = ("model.width=16", "model.heads=2", "model.context=16", "data.rows=2", "evaluation.rows=4", "steps=60")
LEAKS = {"mask_missing", "mask_off_by_one", "mask_inverted", "validation_leak"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A leak, a fault that is none, a pair and a look-alike, with twins and cures."""
    names = ("mask_missing", "corrupt_tokens", "corrupt_tokens+mask_missing", "benign_single_spike")
    knobs = {"corrupt_tokens": ["fault.rows=0.01"]}
    specs = unique(spec for name in names for spec in family_of(name, [0], overrides=[*SMALL, *knobs.get(name, ())]))
    return generate(specs, tmp_path_factory.mktemp("signatures") / "data")


def test_every_run_under_a_fault_has_them_and_no_other(data):
    for _, row in data.runs.iterrows():
        held = json.loads(row["signatures"])
        under = row["cause"] != "" and row["kind"] != RunKind.CURED.value
        assert set(held) == (set(row["cause"].split("+")) if under else set())
        if under:
            run, twin = data.trace(row["run_id"]), data.trace(row["twin_id"])
            assert held == scenario(row["scenario"]).signatures(run, twin, row["seed"], row["planned_steps"])


def test_a_fault_too_small_to_matter_is_not_shown(data):
    (row,) = data.runs[(data.runs["scenario"] == "corrupt_tokens") & (data.runs["kind"] != "cured")].to_dict("records")
    assert (row["kind"], row["outcome"], json.loads(row["signatures"])) == (
        "not shown", "recovered", {"corrupt_tokens": False},
    )  # fmt: skip


def test_harm_is_on_the_side_that_the_scenario_declares(data):
    sides = {(row["scenario"], row["kind"] == "cured"): row["harm"] for _, row in data.runs.iterrows()}
    assert sides == {
        ("", False): "",
        ("mask_missing", False): "below",
        ("mask_missing", True): "either",
        ("corrupt_tokens", False): "above",
        ("corrupt_tokens", True): "above",
        ("corrupt_tokens+mask_missing", False): "either",
        ("corrupt_tokens+mask_missing", True): "either",
        ("benign_single_spike", False): "either",
    }


def test_labelling_again_keeps_labels(data):
    before = data.runs.to_dict("records")
    rows = relabel(data.path, with_signatures)
    assert [(r["kind"], r["signatures"], r["harm"]) for r in rows] == [
        (r["kind"], r["signatures"], r["harm"]) for r in before
    ]


def test_a_run_that_this_version_would_train_otherwise_keeps_what_it_has(data):
    rows = data.runs.to_dict("records")
    for row in rows:
        row |= {
            "run_id": f"{row['run_id']}x",
            "twin_id": row["twin_id"] and f"{row['twin_id']}x",
            "signatures": "as is",
        }
    found = with_signatures(rows, lambda run_id: data.trace(run_id.removesuffix("x")))
    assert {row["signatures"] for row in found} == {"as is"}


def test_without_the_twin_nothing_is_judged(data):
    rows = [row | {"signatures": "{}"} for row in data.runs.to_dict("records") if row["kind"] != "healthy"]
    assert {row["signatures"] for row in with_signatures(rows, data.trace)} == {"{}"}


def test_a_predicate_that_raises_is_named_in_one_line(data, monkeypatch):
    spec = family_of("mask_missing", [0], overrides=SMALL)[0]
    trace = data.trace(spec.run_id)

    def broken(*words):
        raise IndexError("no such\nlayer")

    monkeypatch.setattr(type(spec.entry), "signature", broken)
    with pytest.raises(InputError) as error:
        signatures(spec.entry, trace, trace, spec)
    assert str(error.value) == (
        f"scenario: the signature of mask_missing can't be judged on {spec.run_id} (IndexError: no such layer)"
    )


def test_leaks_declare_that_they_end_below_and_no_other():
    assert {name for name, entry in scenarios().items() if entry.harm is Harm.BELOW} == LEAKS
    assert not any(scenarios()[name].look_alike for name in LEAKS)


def test_a_leaks_cure_and_a_look_alike_are_harmed_on_either_side():
    faulty, _, cured = family_of("validation_leak", [0])
    assert (harm_of(faulty), harm_of(cured)) == (Harm.BELOW, Harm.EITHER)
    faulty, _, cured = family_of("high_lr", [0])
    assert (harm_of(faulty), harm_of(cured)) == (Harm.ABOVE, Harm.ABOVE)
    assert harm_of(family_of("benign_single_spike", [0], roles=(Role.FAULTY,))[0]) is Harm.EITHER


@pytest.mark.parametrize("table", ["results/standard/runs.parquet", "evaluation/sample/runs.parquet"])
def test_at_the_settings_that_are_proven_no_outcome_depends_on_the_side(table, monkeypatch):
    """What is declared is what every run of the data sets does: none ended on the other side of its twin."""
    runs = pd.read_parquet(ROOT / table)
    runs = runs[runs["outcome"].notna() & (runs["outcome"] != "non_finite")]
    finite = {"loss": np.zeros(1)}
    compared = 0
    for row in runs.itertuples():
        try:
            entry = scenario(row.scenario) if row.scenario else None
        except InputError:  # a pair whose bases contradict each other since
            continue
        compared += 1
        gap = None if row.final_gap != row.final_gap else row.final_gap
        tolerance = None if row.tolerance != row.tolerance else row.tolerance
        if entry is None or row.kind == "look-alike" or (row.kind == "cured" and entry.harm is Harm.BELOW):
            side = Harm.EITHER
        else:
            side = entry.harm
        assert outcome_of(finite, gap, tolerance, side) == row.outcome, row.run_id
    assert compared > 0.95 * len(runs)

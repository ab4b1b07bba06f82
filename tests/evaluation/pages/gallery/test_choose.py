"""One seed a scenario and severity, and the right one."""

import numpy as np
import pytest

from trainwreck.evaluation.pages.gallery.choose import exhibits


@pytest.fixture
def build(tmp_path, make_run, make_trace, write_data_set):
    """A data set of run ids with facts, all of one trace's length."""

    def made(*rows, name="a"):
        root = tmp_path / name
        root.mkdir()
        runs = [make_run(row["run_id"], last_step=9, **{k: v for k, v in row.items() if k != "run_id"}) for row in rows]
        traces = [make_trace(row["run_id"], steps=10, loss=np.full(10, 2.0)) for row in rows]
        return write_data_set(root, runs, traces)

    return made


def trio(seed, *, kind="failing", cured=True, severity="clear", prefix="", split="test"):
    label = {"scenario": "high_lr", "severity": severity, "seed": seed, "split": split}
    rows = [
        {"run_id": f"{prefix}f{severity}{seed}", **label, "kind": kind, "twin_id": f"{prefix}t{severity}{seed}"},
        {"run_id": f"{prefix}t{severity}{seed}", "seed": seed, "split": split},
    ]
    return [*rows, {"run_id": f"{prefix}c{severity}{seed}", **label, "kind": "cured"}] if cured else rows


def chosen(*datasets):
    return [one.faulty["run_id"] for one in exhibits(datasets)["high_lr"]]


def test_the_smallest_seed_that_has_twin_and_cure(build):
    assert chosen(build(*trio(0, cured=False), *trio(2), *trio(1))) == ["fclear1"]


def test_a_run_that_was_harmed_comes_before_a_latent_one(build):
    assert chosen(build(*trio(0, kind="latent"), *trio(1))) == ["fclear1"]
    assert chosen(build(*trio(0, kind="latent"), name="b")) == ["fclear0"]


def test_a_run_that_scores_look_at_comes_before_one_to_learn_from(build):
    assert chosen(build(*trio(0, split="train"), *trio(1))) == ["fclear1"]
    assert chosen(build(*trio(0, split="train"), *trio(1, kind="latent"), name="b")) == ["fclear0"]


def test_one_of_each_severity_mildest_first(build):
    found = chosen(build(*trio(0), *trio(1, severity="severe"), *trio(2, severity="subtle")))
    assert found == ["fsubtle2", "fclear0", "fsevere1"]


def test_the_data_set_that_was_given_first_wins(build):
    first, second = build(*trio(5), name="b"), build(*trio(0), name="c")
    assert chosen(first, second) == ["fclear5"]
    assert chosen(second, first) == ["fclear0"]


def test_private_and_compound_runs_are_left_out(build):
    compound = {"run_id": "two", "scenario": "high_lr+no_warmup", "kind": "compound", "severity": "clear"}
    failing = {"run_id": "both", "scenario": "high_lr+mask_zeroed", "kind": "failing", "severity": "clear"}
    assert set(exhibits([build(*trio(0, split="private"), *trio(3), compound, failing)])) == {"high_lr"}
    assert exhibits([build(*trio(0, split="private"), name="b")]) == {}


def test_a_cure_belongs_to_its_own_severity_and_seed(build):
    (one,) = exhibits([build(*trio(0), *trio(1, severity="severe", cured=False), *trio(1))])["high_lr"][:1]
    assert one.cured["run_id"] == "cclear0"
    assert one.twin["run_id"] == "tclear0"


def test_a_look_alike_misses_no_cure(build):
    look = {"run_id": "l0", "scenario": "benign", "kind": "look-alike", "seed": 0, "twin_id": "t0"}
    (one,) = exhibits([build(look, {"run_id": "t0", "seed": 0})])["benign"]
    assert (one.missing, one.cured) == (0, None)
    assert [row["run_id"] for row in one.rows] == ["t0", "l0"]


def test_a_run_whose_fault_is_not_shown_is_no_exhibit(build):
    assert chosen(build(*trio(0, kind="not shown"), *trio(1, kind="latent"))) == ["fclear1"]
    assert exhibits([build(*trio(0, kind="not shown"), name="b")]) == {}

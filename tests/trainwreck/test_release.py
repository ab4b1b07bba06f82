"""`release` from the command line, the sample by its name, and the way back from a release to its runs."""

import json
from pathlib import Path

import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.scenarios.datasets.plans import resolve
from trainwreck.scenarios.datasets.small_plans import SAMPLE
from trainwreck.scenarios.spec.run_spec import RunSpec


@pytest.fixture(scope="module")
def released(call, data_set, tmp_path_factory):
    out = tmp_path_factory.mktemp("released") / "rel"
    result = call("release", data_set, "--out", out, "--json")
    assert result.code == 0, result.err
    return out, json.loads(result.out)


def test_release(released, data_set):
    out, facts = released
    assert facts == {"release": str(out), "runs": len(load(data_set)), "splits": {"calibration": 8, "test": 8}}
    assert load(out).runs["spec"].tolist() == load(data_set).runs["spec"].tolist()
    assert json.loads((out / "manifest.json").read_text("utf-8"))["backend"]


def test_the_plan_in_it_names_the_same_runs(released):
    out, _ = released
    name, specs = resolve([str(out / "plan.json")])
    assert name == "sweep"
    assert [spec.run_id for spec in specs] == load(out).runs["run_id"].tolist()


def test_a_run_of_it_is_trained_again(call, released):
    out, _ = released
    run_id = load(out).runs.dropna(subset=["onset_step"]).index[0]
    assert json.loads(call("reproduce", out, run_id, "--json").out)["identical"] is True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--private"], "has no run of split 'private'"),
        (["--published", "yesterday"], "published: 'yesterday' is not allowed"),
        (["--url", "here"], "url: 'here' is not allowed"),
        (["--profile", "ful"], "did you mean 'full'"),
    ],
)
def test_bad_words_are_one_line(words, message, call, data_set, here):
    found = call("release", data_set, "--out", "rel", *words, "--json")
    assert found.code == 2
    assert message in found.err
    assert len(found.err.splitlines()) == 1
    assert list(here.iterdir()) == []


def test_the_sample_is_scored_by_its_name(call, here):
    result = call("score", "sample", "--detector", "nonfinite_loss", "--json")
    assert result.code == 0, result.err
    (card,) = json.loads(result.out)
    assert card["detector"] == "nonfinite_loss"
    assert len(card["alarms"]) == (load(sample()).runs["split"] != "train").sum()
    assert list(here.iterdir()) == []


def test_a_report_of_the_sample_is_written_here(call, here, monkeypatch):
    monkeypatch.setattr("trainwreck.commands.score.write_page", lambda folder, out, quiet: [folder, out] and out)
    assert json.loads(call("report", "sample", "--json").out) == {"report": "sample.html"}
    assert json.loads(call("report", "mine", "--json").out) == {"report": str(Path("mine/report.html"))}


def test_the_sample_is_what_its_plan_makes_today():
    """A scenario with a new version, or a changed base, asks for `make sample`."""
    runs = load(sample()).runs
    assert set(runs["scenario"]) - {""} == set(SAMPLE)
    for run_id, spec in runs.drop_duplicates("scenario").query("scenario != ''")["spec"].items():
        assert RunSpec.from_json(json.loads(spec)).run_id == run_id

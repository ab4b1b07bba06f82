"""The pages that teach by doing: what they tell the reader to type runs, and does what they say."""

import re
from pathlib import Path

import pytest

import trainwreck
from trainwreck.evaluation.dataset.dataset import read_runs, write_manifest, write_runs
from trainwreck.evaluation.detectors.learned.model import shipped
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.run import Scorecard
from trainwreck.scenarios.spec import outside

DOCS = Path(__file__).resolve().parents[2] / "docs"
LONGEST = 22  # lines of the example, blank ones included


def code(name):
    """The one Python block of a page."""
    (found,) = re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.S)
    return found


@pytest.fixture
def with_train(tmp_path):
    """The sample; while the shipped one has no train split, a copy of it whose seed 1 is one."""
    sample = trainwreck.load("sample")
    if "train" in set(sample.runs["split"]):
        return sample.path
    for name in sample.manifest["files"]:
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_bytes((sample.path / name).read_bytes())
    rows = [
        row | ({"split": "train"} if (row["seed"], row["split"]) == (1, "test") else {})
        for row in read_runs(sample.path).to_pylist()
    ]
    write_runs(tmp_path / "data", rows)
    write_manifest(tmp_path / "data", {"plan": "sample"})
    return tmp_path / "data"


def test_the_example_trains_a_model_and_scores_it(with_train):
    example = code("train_a_model.md")
    assert len(example.splitlines()) <= LONGEST
    made = {}
    exec(example.replace('"sample"', repr(str(with_train))), made)
    card = made["card"]
    assert isinstance(card, Scorecard)
    assert set(made["train"].runs["split"]) == {"train"}
    assert made["model"].score(made["train"].X, made["train"].y) > 0.8
    measured = made["data"].runs.loc[[one.run_id for one in card.alarms]]
    assert "train" not in set(measured["split"])
    assert card.statuses == {"ok": len(measured)}


def test_weights_of_ones_own_are_a_detector(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (lines,) = re.findall(r"```python\n(# mine.py.*?)```", (DOCS / "learned.md").read_text(encoding="utf-8"), re.S)
    Path("mine.py").write_text(lines, encoding="utf-8")
    Path("learned.npz").write_bytes(shipped().read_bytes())
    data = trainwreck.load("sample")
    mine, built_in = (trainwreck.score(name, data, profile="minimal") for name in ("mine.py:Mine", "learned"))
    assert mine.in_time_recall == built_in.in_time_recall


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The tutorial's file in the current folder."""
    monkeypatch.setattr(outside, "_loaded", {})
    monkeypatch.setattr(outside, "_files", {})
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    Path("stuck_rate.py").write_text(code("own_scenario.md"), encoding="utf-8")
    return "stuck_rate.py:StuckRate"


def test_the_scenario_of_the_tutorial_is_one(own):
    page = trainwreck.show(own)
    assert page["checked"]
    assert page["proven"] == []
    tiny = ("steps=60", "model.layers=2", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2")
    wreck = trainwreck.run(own, *tiny, "evaluation.rows=4", "fault.factor=0.03")
    rate = wreck["faulty"]["lr"] / wreck["twin"]["lr"]
    assert rate[wreck.onset - 1] == 1
    assert rate[wreck.onset] == pytest.approx(0.03)


def test_runs_are_trained_on_a_text_of_ones_own(own):
    tiny = ("steps=40", "model.layers=2", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2")
    Path("it's mine.txt").write_text("the cat sat on the mat, and the dog did not. " * 100)
    wreck = trainwreck.run("mask_missing", *tiny, "evaluation.rows=4", text="it's mine.txt", roles=["twin"])
    assert wreck.floor is None  # which a text has not
    assert wreck["twin"]["loss"][0] == pytest.approx(5.5, abs=0.3)  # ln 256
    Path("short.txt").write_text("too short")
    for text, why in (("nowhere.txt", "can't be read"), ("short.txt", "has 9 bytes; allowed: 1000 or more")):
        with pytest.raises(InputError, match=why):
            trainwreck.run("mask_missing", text=text)
    with pytest.raises(InputError, match="text: not allowed beside plan 'demo'; allowed: a sweep"):
        trainwreck.generate("demo", out="made", text="short.txt")

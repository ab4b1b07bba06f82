"""A scenario and a text of one's own from the command line."""

import re
from pathlib import Path

import pytest

import trainwreck
from trainwreck.evaluation.dataset.dataset import UNPROVEN
from trainwreck.scenarios.spec import outside

PAGE = Path(__file__).resolve().parents[2] / "docs" / "own_scenario.md"


@pytest.fixture
def own(here, monkeypatch):
    """The tutorial's file in the current folder."""
    monkeypatch.setattr(outside, "_loaded", {})
    monkeypatch.setattr(outside, "_files", {})
    monkeypatch.setenv("XDG_DATA_HOME", str(here / "home"))
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    Path("stuck_rate.py").write_text(source, encoding="utf-8")
    return "stuck_rate.py:StuckRate"


def test_a_sweep_of_a_file_says_what_it_trains_and_that_it_is_not_proven(own, call, tiny):
    Path("mine.txt").write_text("the cat sat on the mat, and the dog did not. " * 100)
    longer = ["steps=60" if word.startswith("steps=") else word for word in tiny]  # its cure comes late
    sweep = (f"scenario={own}", "fault.factor=0.01,0.03", *longer, "--text", "mine.txt")
    made = call("generate", *sweep, "--out", "made", "--workers", "1")
    assert made.code == 0, made.err
    assert made.err.startswith("13 runs: 2 faulty, 1 twin, 2 cured, 8 healthy runs more")
    assert "not proven on this machine, so flagged in the labels: stuck_rate" in made.out
    runs = trainwreck.load("made").runs
    faulty = runs["scenario"] == "stuck_rate"
    assert runs[UNPROVEN].tolist() == faulty.tolist()
    assert set(runs.loc[faulty, "fault.factor"]) == {0.01, 0.03}
    assert runs.loc[~faulty, "fault.factor"].isna().all()
    assert "mine.txt" in set(runs["context"].str.extract(r'"text": "([^"]*)"')[0])


def test_what_cannot_be_done_with_a_text_is_one_line(own, call, tiny):
    call("run", own, *tiny, "--text", "nowhere.txt").refused("data.text: 'nowhere.txt' can't be read")
    Path("mine.txt").write_text("the cat sat on the mat. " * 100)
    call("generate", "demo", "--out", "made", "--text", "mine.txt").refused("text: not allowed beside plan 'demo'")
    call("verify", own, "data.source=text", "--text", "mine.txt").refused("'data.source' is given twice")
    assert not Path("made").exists()

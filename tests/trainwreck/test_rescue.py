"""`trainwreck rescue`: a table of policies, episodes that are kept, and what is refused."""

import json

from trainwreck.commands.rescue import POLICIES
from trainwreck.scenarios.rescue.board import Oracle
from trainwreck.scenarios.rescue.policies import BUILT_IN

SHORT = ("rescue", "sample", "--runs", "1", "--block", "100")


def test_the_policies_are_those_that_are_built_in():
    assert set(POLICIES) == {Oracle.name, *(policy.name for policy in BUILT_IN)}
    assert all(policy.rule for policy in (Oracle, *BUILT_IN))


def test_a_row_a_policy_and_episodes_that_are_gone_on_with(call, here):
    first = call(*SHORT, "--policy", "never", "--policy", "stop_at_alarm", "--out", "episodes.jsonl")
    assert first.code == 0
    assert first.out.splitlines()[0].split() == [
        "policy",
        "recovered",
        "rescued",
        "harmed",
        "diagnosed",
        "spent",
        "delay",
    ]
    assert {line.split()[0] for line in first.out.splitlines()[1:3]} == {"never", "stop_at_alarm"}
    kept = (here / "episodes.jsonl").read_text()
    again = call(*SHORT, "--policy", "never", "--out", "episodes.jsonl", "--json")
    assert (here / "episodes.jsonl").read_text() == kept
    (row,) = json.loads(again.out)
    assert (row["policy"], row["episodes"], row["spent"]) == ("never", 3, 0)


def test_what_is_not_allowed_is_refused(call, here):
    call("rescue", "sample", "--policy", "nevr").refused("did you mean 'never'?")
    call("rescue", "sample", "--split", "private").refused("split: private is not allowed")
    call("rescue", "nowhere").refused("data set: 'nowhere' is not a folder")
    (here / "other.jsonl").write_text('{"profile": "full", "block": 10}\n')
    call(*SHORT, "--policy", "never", "--out", "other.jsonl").refused("or another --out")


def test_a_page_to_play_in_a_folder(call, here, monkeypatch):
    monkeypatch.setattr("trainwreck.scenarios.rescue.game.branches.CHOICES", ("stop",))
    (here / "pages").mkdir()
    words = ("rescue", "sample", "--play", "--runs", "1", "--block", "40", "--out", "pages")
    made = call(*words, "--json")
    assert made.code == 0
    facts = json.loads(made.out)
    assert (facts["page"], facts["runs"]) == ("pages/rescue.html", 3)
    assert 7 <= facts["branches"] <= 9  # a run that has ended is acted on no more
    assert (here / "pages" / "rescue.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_page_that_cannot_be_made_is_refused(call, here):
    call("rescue", "sample", "--play", "--policy", "never").refused("policy: not allowed with --play")
    call("rescue", "nowhere", "--play").refused("data set: 'nowhere' is not a folder")
    call("rescue", "sample", "--play", "--split", "calibration").refused("play: no failing run can still be saved")
    call("rescue", "sample", "--play", "--block", "200").refused("block: 200 is not allowed with --play")
    assert list(here.iterdir()) == []

"""`trainwreck rescue`: a table of policies, episodes that are kept, and what is refused."""

import dataclasses
import json

from trainwreck.commands.rescue import POLICIES
from trainwreck.scenarios.rescue.board import Oracle
from trainwreck.scenarios.rescue.learned.model import read_model, shipped
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
    assert call("rescue", "sample", "--rescore", "episodes.jsonl").out == first.out
    cheaper = call("rescue", "sample", "--rescore", "episodes.jsonl", "--price", "stop=1", "--json")
    assert {row["policy"]: row["spent"] > 0 for row in json.loads(cheaper.out)} == {
        "never": False,
        "stop_at_alarm": True,
    }


MINE = """class Mine:
    def reset(self, seed):
        pass

    def act(self, seen):
        return "explode" if seen.step == 100 else "continue"
"""


def test_a_policy_of_a_file_runs_beside_the_built_in_ones_and_what_it_did_wrong_is_told(call, here):
    (here / "mine.py").write_text(MINE)
    words = (*SHORT, "--policy", "mine.py:Mine", "--policy", "never", "--out", "episodes.jsonl")
    found = call(*words)
    assert found.code == 0
    lines = {line.split()[0]: line.split()[1:] for line in found.out.splitlines()[1:3]}
    assert lines["mine.py:Mine"] == lines["never"]
    assert "mine.py:Mine: 3 episodes not ok, the first, r" in found.out
    assert ": garbage: action: 'explode' is not allowed; allowed: continue, stop" in found.out
    assert "mine.py:Mine: in a process of its own in each episode, confined by " in found.out
    kept = [json.loads(line) for line in (here / "episodes.jsonl").read_text().splitlines()[1:]]
    assert {one["policy"]: one["status"].partition(":")[0] for one in kept} == {
        "mine.py:Mine": "garbage",
        "never": "ok",
    }
    rows = {row["policy"]: row for row in json.loads(call(*words, "--json").out)}
    assert (rows["mine.py:Mine"]["failed"], rows["never"]["failed"]) == (3, 0)


def test_a_policy_that_can_not_be_loaded_is_refused(call, here):
    (here / "mine.py").write_text("class Mine: pass")
    call(*SHORT, "--policy", "mine.py:Mine").refused("policy mine.py: Mine is not a policy, it has no reset and act")
    call(*SHORT, "--policy", "none.py:Mine").refused("policy none.py: no such file")
    call(*SHORT, "--policy", "cmd:").refused("policy: 'cmd:' is not allowed; allowed: cmd:PROGRAM WORD ...")
    call(*SHORT, "--policy", "never", "--row-seconds", "0").refused("row_seconds: 0.0 is not allowed")


def test_what_is_not_allowed_is_refused(call, here):
    call("rescue", "sample", "--policy", "nevr").refused("did you mean 'never'?")
    call("rescue", "sample", "--split", "private").refused("split: private is not allowed")
    call("rescue", "sample", "--price", "restore=1").refused("price: not allowed without --rescore")
    call("rescue", "sample", "--rescore", "x", "--policy", "never").refused("policy: not allowed beside --rescore")
    call("rescue", "sample", "--rescore", "nowhere.jsonl").refused("nowhere.jsonl: no such file")
    call("rescue", "sample", "--mcp").refused("out: none is not allowed beside --mcp; allowed: a file")
    call("rescue", "sample", "--mcp", "--policy", "never").refused("policy: 'never' is not allowed beside --mcp")
    call("rescue", "sample", "--mcp", "--policy", "a", "--policy", "b").refused("allowed: one name of the agent")
    call("rescue", "nowhere").refused("data set: 'nowhere' is not a folder")
    (here / "other.jsonl").write_text('{"profile": "full", "block": 10}\n')
    call(*SHORT, "--policy", "never", "--out", "other.jsonl").refused("or another --out")


ABOUT = {
    "plan": "small", "runs": {"failing": 4}, "moments": 7, "hindsight": {"earned": 9.0, "acted": 4, "harmed": 0},
    "held_out": {
        "scenario": {"earned": 1.5, "acted": 2, "harmed": 1}, "seed": {"earned": 8.25, "acted": 3, "harmed": 0},
    },
}  # fmt: skip


def test_a_policy_is_trained_and_told_of(call, here, monkeypatch):
    """What is trained has tests of its own; this is the way from there to the user, and back to a board."""
    model = dataclasses.replace(shipped(), about=ABOUT)
    monkeypatch.setattr("trainwreck.scenarios.rescue.learned.training.learn", lambda *_: model)
    printed = call("rescue", "sample", "--learn", "mine.npz", "--out", "tried.jsonl")
    assert printed.code == 0, printed.err
    lines = [line.split() for line in printed.out.splitlines()]
    assert lines[1][-3:] == ["9.000", "4", "0"]
    assert lines[2][-3:] == ["1.500", "2", "1"]
    assert lines[3][-3:] == ["8.250", "3", "0"]
    assert "from 7 moments of 4 failing runs" in printed.out
    assert read_model(here / "mine.npz").about == ABOUT
    assert (here / "tried.jsonl").read_text().count("\n") == 1
    facts = json.loads(call("rescue", "sample", "--learn", "mine.npz", "--json").out)
    assert (facts["weights"], facts["margin"], facts["moments"]) == ("mine.npz", model.margin, 7)
    (here / "mine.py").write_text(
        "from pathlib import Path\n\nfrom trainwreck.rescue import with_weights\n\n"
        'Mine = with_weights(Path(__file__).with_name("mine.npz"))\n'
    )
    board = call(*SHORT, "--policy", "mine.py:Mine", "--policy", "learned", "--json")
    mine, built_in = sorted(json.loads(board.out), key=lambda row: row["policy"], reverse=True)
    assert {name: value for name, value in mine.items() if name != "policy"} == {
        name: value for name, value in built_in.items() if name != "policy"
    }
    assert (mine["policy"], mine["failed"]) == ("mine.py:Mine", 0)


def test_a_policy_that_can_not_be_trained_is_refused(call, here):
    call("rescue", "sample", "--learn", "mine.pkl").refused("learn: 'mine.pkl' is not allowed; allowed: a file that")
    call("rescue", "sample", "--learn", "mine.npz", "--split", "test").refused("split: not allowed beside --learn")
    call("rescue", "sample", "--learn", "mine.npz", "--policy", "never").refused("policy: not allowed beside --learn")
    call("rescue", "sample", "--learn", "mine.npz", "--play").refused("play: not allowed beside --learn")
    call("rescue", "nowhere", "--learn", "mine.npz").refused("data set: 'nowhere' is not a folder")
    assert list(here.iterdir()) == []


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
    assert [path.name for path in (here / "pages").iterdir()] == ["rescue.html"]
    (here / "pages" / "rescue.courses.jsonl").write_text('{"profile": "full"}\n')
    call(*words).refused('pages/rescue.courses.jsonl: is of {"profile": "full"}; allowed: {"profile": "common"')


def test_a_page_that_cannot_be_made_is_refused(call, here):
    call("rescue", "sample", "--play", "--policy", "never").refused("policy: not allowed with --play")
    call("rescue", "nowhere", "--play").refused("data set: 'nowhere' is not a folder")
    call("rescue", "sample", "--play", "--split", "calibration").refused("play: no failing run can still be saved")
    call("rescue", "sample", "--play", "--block", "200").refused("block: 200 is not allowed with --play")
    assert list(here.iterdir()) == []

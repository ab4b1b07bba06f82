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

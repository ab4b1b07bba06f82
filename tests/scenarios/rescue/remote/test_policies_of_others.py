"""Policies in processes of their own: the same as in this one, apart from each other, and whatever they do wrong."""

import dataclasses
import json
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.imports import import_file
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.scenarios.rescue.board import play, play_all, table
from trainwreck.scenarios.rescue.observation import Observation
from trainwreck.scenarios.rescue.outcomes import Outcome
from trainwreck.scenarios.rescue.policies import Never
from trainwreck.scenarios.rescue.remote.opening import open_policy

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def untouched(pair):
    return play(Never, pair)


@pytest.fixture
def opened():
    """Open a class of `policies.py`, or a mode of `command.py`, under limits; closed after the test."""
    with ExitStack() as stack:

        def begin(name, **limits):
            full = f"{HERE / 'policies.py'}:{name}"
            if name.startswith("cmd:"):
                full = f"cmd:{sys.executable} -I -S {HERE / 'command.py'} {name.removeprefix('cmd:')}"
            policy = open_policy(full, Limits(**limits))
            stack.callback(policy.close)
            return policy

        yield begin


def same_run(one: Outcome, other: Outcome) -> bool:
    """Whether the trained runs and their scores are bitwise the same."""
    names = {"policy", "actions", "status", "diagnosis"}
    left, right = (dataclasses.asdict(found) for found in (one, other))
    return all(left[name] == right[name] for name in left if name not in names)


def test_a_policy_does_the_same_in_a_process_of_its_own(pair, opened):
    here = import_file(HERE / "policies.py", "policy").ByHistory
    inside, outside = play(here, pair), play(opened("ByHistory"), pair)
    assert [dataclasses.replace(one, policy="by_history") for one in outside] == inside
    assert [one.status for one in outside] == ["ok", "ok"]
    assert {one.diagnosis for one in outside} == {("mask_missing",)}
    # Rates of two runs that were shown other numbers are others: each saw its own run alone.
    first, second = ([text for _, text, _ in one.actions if text.startswith("rate")] for one in outside)
    assert len(first) == len(second) > 2
    assert first[-1] != second[-1]


def test_no_process_is_shown_two_episodes(pair, opened):
    found = play(opened("OneLife"), [*pair, *pair])
    assert [one.status for one in found] == ["ok"] * 4


def test_an_action_has_every_digit(pair, opened):
    policy = opened("WithAction")
    (found,) = play(policy, pair[:1])

    class Same(Never):
        def act(self, seen):
            return "rate=0.123456789" if seen.step == 20 else "continue"

    (same,) = play(Same, pair[:1])
    assert found.final == same.final
    assert found.actions == same.actions


def test_a_command_is_shown_the_signals_that_it_asks_for(pair, opened):
    found = play(opened("cmd:acts"), pair)
    assert [one.actions for one in found] == [((20, "rate=0.5", ""),)] * 2
    assert [(one.status, one.diagnosis) for one in found] == [("ok", ("mask_missing",))] * 2


@pytest.mark.parametrize(
    ("name", "limits", "status"),
    [
        ("Unknown", {}, "garbage: action: 'explode' is not allowed"),
        ("OutOfRange", {}, "garbage: action rate: 99 is not allowed; allowed: 0.1 to 3"),
        ("Nothing", {}, "garbage: action: 'None' is not allowed"),
        ("Long", {}, "garbage: action: "),
        ("StrangeCause", {}, "garbage: causes: 'gremlins' is not allowed"),
        ("Late", {"row_seconds": 0.5}, "timeout: no answer within 0.5 s"),
        ("Endless", {"output_kb": 16.0}, "output: printed more than 16 KiB"),
        ("Raises", {}, "crashed: ValueError: no idea"),
        ("Ends", {}, "crashed: its process ended with exit code 3"),
        ("Hoards", {"memory_mb": 300.0}, "memory: "),
        ("cmd:garbage", {}, "garbage: answered '{not json"),
        ("cmd:step", {}, "garbage: step: '10' is not allowed; allowed: 20"),
        ("cmd:key", {}, "garbage: action: 'label' is not allowed"),
        ("cmd:long", {}, "output: an answer of more than 1024 KiB"),
        ("cmd:failed", {}, "crashed: no weights"),
        ("cmd:twice", {}, "garbage: said "),
    ],
)
def test_whatever_goes_wrong_is_a_status_and_the_run_goes_on_untouched(pair, untouched, opened, name, limits, status):
    found = play(opened(name, **limits), pair)
    for one, same in zip(found, untouched, strict=True):
        assert one.status.startswith(status)
        assert same_run(one, same)
        assert one.acted is None
        assert any(note == one.status for _, _, note in one.actions)
    assert Outcome.from_json(json.loads(json.dumps(found[0].to_json()))) == found[0]
    assert table(found).loc[0, "failed"] == 2


def test_an_action_after_the_end_is_a_status(pair, opened):
    found = play(opened("cmd:stop"), pair)
    assert [(one.ended, one.trained) for one in found] == [("stopped", 20)] * 2
    assert all(one.status.startswith("garbage: said ") for one in found)
    assert [[text for _, text, _ in one.actions] for one in found] == [["stop"]] * 2


PICKY = """
class Picky:
    def reset(self, seed):
        pass

    def act(self, seen):
        if any(row["loss"] == LOSS for row in seen.rows):
            raise SystemExit(4)
        return "rate=0.5" if seen.step == 40 else "continue"
"""


def test_a_failure_changes_nobody_else(pair, tmp_path):
    """It breaks off where it sees a loss of the failing run alone; the healthy one is acted on as ever."""
    losses = []

    class Looks(Never):
        def act(self, seen):
            losses.extend(row["loss"] for row in seen.rows if row["step"] == 29)
            return "rate=0.5" if seen.step == 40 else "continue"

    play(Looks, pair[:1])
    (tmp_path / "picky.py").write_text(f"LOSS = {losses[0]!r}\n{PICKY}")
    policy = open_policy(f"{tmp_path / 'picky.py'}:Picky")
    failing, other = play(policy, pair)
    assert failing.status == "crashed: SystemExit: 4"
    assert [step for step, _, _ in failing.actions] == [30]
    (alone,) = play(Looks, pair[1:])
    assert dataclasses.replace(other, policy="never") == alone
    assert [text for _, text, _ in other.actions] == ["rate=0.5"]


def test_nothing_says_which_run_it_is(pair, opened):
    for one in play(opened("Curious"), pair):
        shown = json.loads(one.status.removeprefix("crashed: ValueError: "))
        assert shown == {
            "argv": [],
            "environment": [],
            "folder": [],
            "seen": ["answer", "history", "planned", "rolled_back", "rows", "spent", "step"],
        }


def test_after_answers_that_timed_out_in_a_row_no_more_is_tried(pair, opened):
    found = play(opened("Late", row_seconds=0.1), pair * 3)
    texts = [one.status.partition(",")[0] for one in found]
    assert texts == ["timeout: no answer within 0.1 s"] * 5 + ["timeout: not tried"]


def test_time_for_all_episodes_is_shared(pair, opened):
    found = play_all([opened("Late", minutes=0.02)], pair)
    assert all(
        one.status.startswith("timeout: ") and "all the time for its runs is spent" in one.status for one in found
    )


def test_outcomes_are_in_the_order_of_the_cases_and_of_no_other_name(pair, opened):
    policy = opened("Quiet")
    assert [one.run_id for one in play_all([policy], pair)] == [case.spec.run_id for case in pair]
    with pytest.raises(InputError, match=r"two are called 'policies\.py:Quiet'"):
        play_all([policy, opened("Quiet")], pair)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nobody.py:Mine", "policy nobody.py: no such file"),
        ("mine.py", "policy: 'mine.py' is not allowed; allowed: a built-in name or file.py:Class"),
        (f"{HERE / 'policies.py'}:NoAct", "NoAct is not a policy, it has no act"),
        (f"{HERE / 'policies.py'}:Absent", "has no class 'Absent'"),
        (f"{HERE / 'policies.py'}:json", "json is not a class"),
        ("cmd:no-such-program", "policy cmd:no-such-program: 'no-such-program' is no program"),
        ("cmd:false", "policy cmd:false: does not load (crashed: its process ended with exit code 1)"),
        ("nevr", "policy: 'nevr' is not allowed; did you mean 'never'?; allowed: never"),
    ],
)
def test_what_can_not_be_loaded_is_refused_in_one_line(name, error):
    with pytest.raises(InputError) as raised:
        open_policy(name, known=["never"])
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.skipif(not shutil.which("perl"), reason="needs Perl")
def test_the_policy_in_perl_goes_back_and_lowers_the_rate(pair):
    perl = HERE.parents[3] / "docs" / "examples" / "back_and_lower.pl"
    policy = open_policy(f"cmd:perl {perl}")
    player, acted = policy(), []
    for step, losses in ((10, [4.0, 2.0]), (20, [2.9, None]), (30, [2.0, 3.1]), (40, [9.0]), (50, [float("nan")])):
        rows = [{"step": step - 2 + at, "loss": loss} for at, loss in enumerate(losses)]
        acted.append(player.act(Observation(step, 60, rows, rows, 0.0)))
    player.finish()
    assert acted == ["continue", "continue", "roll_back=50", "rate=0.5", "continue"]
    assert player.status == "ok"
    assert [one.status for one in play(policy, pair)] == ["ok", "ok"]


def test_a_plug_in_is_loaded_by_its_name(pair, opened, monkeypatch):
    from importlib.metadata import EntryPoint

    from trainwreck.scenarios.rescue.remote import opening

    monkeypatch.setattr("trainwreck.evaluation.detectors.plugins.entry_points", lambda group: {
        opening.GROUP: [EntryPoint("acts_not", "trainwreck.scenarios.rescue.policies:Never", opening.GROUP)]
    }[group])  # fmt: skip
    policy = open_policy("acts_not")
    (found,) = play(policy, pair[:1])
    assert (found.policy, found.status) == ("acts_not", "ok")

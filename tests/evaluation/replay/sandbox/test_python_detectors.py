"""Detectors of files in a process of their own: each way to fail is that run's status and nobody else's trouble."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.run import score, score_all
from trainwreck.evaluation.replay.alarms import FAILURES_OF_A_DETECTOR
from trainwreck.evaluation.replay.replay import replay
from trainwreck.evaluation.replay.sandbox.confine import LAYERS
from trainwreck.evaluation.replay.sandbox.isolated import GIVE_UP
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.opening import open_detector
from trainwreck.evaluation.replay.sandbox.process import Process, how_it_ended

TIGHT = {"memory_mb": 300.0, "output_kb": 64.0}


@pytest.mark.parametrize(
    ("name", "status", "printed"),
    [
        ("Raises", "crashed: ValueError: first second", "second"),
        ("RaisesOurs", "crashed: InputError: no such threshold", "no such threshold"),
        ("Quits", "crashed: SystemExit: 3", "SystemExit: 3"),
        ("Dies", "crashed: its process ended with exit code 3", "farewell"),
        ("Faults", "crashed: its process ended with signal SIGSEGV", "misbehaving.py"),
        ("Hangs", "timeout: no answer within 0.3 s", "what now"),
        ("Hoards", "memory: ", ""),
        ("WantsTooMuch", "memory: ", "Unable to allocate"),
        ("Floods", "output: printed more than 64 KiB in a run", "xxxx"),
        ("FloodsErrors", "output: printed more than 64 KiB in a run", "xxxx"),
        ("Text", "garbage: update returned 'yes'; allowed: Verdict, bool, a number, None", ""),
        ("NotANumber", "garbage: score: nan is not allowed", ""),
        ("Huge", "garbage: score: 1000", ""),
        ("AlarmOfOne", "garbage: alarm: 1 is not allowed; allowed: True, False", ""),
        ("StrangeCause", "garbage: causes: 'hi_lr' is not allowed; did you mean 'high_lr'?", ""),
        ("ManyCauses", "garbage: causes: ", ""),
    ],
)
def test_each_failure_is_the_status_of_its_run(
    name: str, status: str, printed: str, opened: Any, make_trace: Any
) -> None:
    detector = opened(name, **TIGHT, row_seconds=0.3 if name == "Hangs" else 60.0)
    alarms = replay(detector, make_trace("r", steps=40))
    assert alarms.status.startswith(status)
    assert "\n" not in alarms.status
    assert alarms.outcome in FAILURES_OF_A_DETECTOR
    assert alarms.crashed
    assert any(printed in line for line in alarms.stderr) or not printed
    # What was said before still counts, whatever became of the rest of the batch.
    assert alarms.steps.tolist() == list(range(7))
    assert (alarms.first_alarm, alarms.edges.tolist()) == (3, [3])
    # A run on which it does nothing of the kind is none the worse.
    after = replay(detector, make_trace("s", steps=7))
    assert (after.status, after.first_alarm, after.stderr, len(after.steps)) == ("ok", 3, (), 7)


def test_what_harms_nobody(opened: Any, make_trace: Any) -> None:
    trace = make_trace("r", steps=40)
    for name in ("Good", "Prints", "ReadsInput"):  # an input that is empty, and an output that is not the answers'
        found = replay(opened(name), trace)
        assert (found.status, found.first_alarm, len(found.steps), found.stderr) == ("ok", 3, 40, ())
    named = replay(opened("KnownCause"), trace)
    assert (named.status, named.first_alarm, named.causes) == ("ok", 7, ("high_lr", "unknown"))
    assert named.update_us > 0.0
    assert replay(opened("ResetFails"), trace).status == "crashed: OSError: no weights"


def test_what_the_process_can_know(opened: Any, make_trace: Any, tmp_path: Path, monkeypatch: Any) -> None:
    place = tmp_path / "data_set_of_secrets"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("DATA_SET", str(place))
    monkeypatch.setenv("PWD", str(place))
    with (place / "labels").open("w") as held:  # a file that is open here is not open there
        held.write("label")
        status = replay(opened("Knows"), make_trace("a_run_named_high_lr"), "full", {"lr": 0.5}).status
    found = json.loads(status.removeprefix("crashed: RuntimeError: "))
    assert found.pop("context") == {"lr": 0.5}
    assert "data_set_of_secrets" not in json.dumps(found)
    assert "high_lr" not in json.dumps(found)
    assert "DATA_SET" not in found["environment"]
    assert found["inside"] == []
    # Its input, its outputs, the questions and the answers.
    assert [name for name in found["files"] if not name.startswith(("pipe:", "/dev/null", "/proc/"))] == []


def test_nothing_of_a_later_row_is_handed_over_in_batches_of_one(
    opened: Any, make_trace: Any, monkeypatch: Any
) -> None:
    sent: list[list[int]] = []
    ask = Process.ask

    def watched(self: Process, message: bytes, *others: Any) -> Iterator[bytes]:
        question = json.loads(message)
        if question["type"] == "rows":
            sent.append(question["steps"])
            size = sum(1 if width is None else width for width in question["columns"].values())
            assert len(base64.b64decode(question["numbers"])) == 8 * size * len(question["steps"])
        return ask(self, message, *others)

    monkeypatch.setattr(Process, "ask", watched)
    trace = make_trace("r", steps=40)
    first, second = (replay(opened("Good", batch=batch), trace) for batch in (1, 32))
    assert sent == [[step] for step in range(40)] + [list(range(32)), list(range(32, 40))]
    assert first.scores.tolist() == second.scores.tolist()


def test_one_that_only_says_that_it_goes_on_is_late(opened: Any, make_trace: Any) -> None:
    assert replay(opened("Trickles", row_seconds=0.3), make_trace("r", steps=40)).outcome == "timeout"


def test_answers_to_rows_that_it_was_not_asked_about_are_refused(opened: Any, make_trace: Any) -> None:
    found = replay(opened("Forges", batch=32), make_trace("r", steps=40))
    # Which answer is the first that nobody asked for depends on which of the two processes is ahead: one before the
    # next question, one about another step, or a verdict when asked to end. The run is lost in each case.
    assert found.outcome == "garbage"
    assert found.last_judged >= 31


@pytest.mark.parametrize(("code", "words"), [(0, "exit code 0"), (-9, "signal SIGKILL"), (-40, "signal 40")])
def test_how_it_ended(code: int, words: str) -> None:
    assert how_it_ended(code) == words


def test_after_some_timeouts_in_a_row_it_is_given_up(opened: Any, make_trace: Any) -> None:
    detector = opened("Hangs", row_seconds=0.02)
    found = [replay(detector, make_trace(f"r{i}", steps=10)) for i in range(GIVE_UP + 1)]
    assert [one.status for one in found[:GIVE_UP]] == ["timeout: no answer within 0.02 s"] * GIVE_UP
    assert found[-1].status == (
        f"timeout: not tried, {GIVE_UP} runs in a row had timed out, the first: no answer within 0.02 s"
    )
    assert len(found[-1].steps) == 0


def test_the_others_are_scored_as_without_it(tmp_path: Path, write_small_data_set: Any) -> None:
    data = write_small_data_set(tmp_path / "set")
    file = tmp_path / "bad.py"
    file.write_text(
        "import os\nclass Bad:\n    def reset(self, context): pass\n"
        "    def update(self, row):\n        if row['loss'] > 8: os._exit(9)\n        return False\n"
    )
    names = ["loss_over_minimum", f"{file}:Bad", "any_zscore"]
    beside, alone = score_all(data, names), score_all(data, [names[0], names[2]])
    for one, other in zip([beside[0], beside[2]], alone, strict=True):
        facts, same = one.to_dict(scores=True), other.to_dict(scores=True)
        for each in (facts, same):
            each["cost"]["update_us"] = 0
            for alarms in each["alarms"]:
                alarms["update_us"] = 0
        assert facts == same
    bad = beside[1]
    assert bad.detector == "bad.py:Bad"
    assert bad.statuses == {"crashed": 6, "ok": len(data) - 6}
    assert bad.counts["crashed"] == 6
    assert bad.recall["default"].value == 0.0
    (note,) = [note for note in bad.notes if note.startswith("crashed on 6 runs")]
    assert "its process ended with exit code 9" in note
    assert "its process ended with exit code 9" in bad.text()
    assert json.loads(json.dumps(bad.to_dict()))["statuses"] == bad.statuses


def test_built_in_ones_are_isolated_when_asked_for_and_as_they_are_tuned(
    tmp_path: Path, write_small_data_set: Any
) -> None:
    data = write_small_data_set(tmp_path)
    for name in ("clock", "playbook"):
        here, apart = score(name, data), score(name, data, isolate=True)
        assert set(apart.about.pop("confinement")) == set(LAYERS)
        assert json.dumps(apart.about) == json.dumps(here.about)
        for one, other in zip(here.alarms, apart.alarms, strict=True):
            np.testing.assert_array_equal(one.scores, other.scores)
            assert (one.status, one.first_alarm, one.causes) == (other.status, other.first_alarm, other.causes)
    with pytest.raises(InputError, match="allowed: detectors by name"):
        score(type("Mine", (), {"reset": print, "update": print}), data, isolate=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "limits", "complaint"),
    [
        ("import os\nprint('so long')\nos._exit(7)", {}, "exit code 7; it printed last: so long)"),
        ("while True: pass", {"start_seconds": 1.0}, "does not load (timeout: no answer within 1 s)"),
        ("while True: print('x' * 1000)", {"output_kb": 64.0}, "does not load (output: printed more than 64 KiB"),
        ("import numpy\nnumpy.ones(2**37)", {}, "does not import (MemoryError"),
        ("class Mine: pass", {}, "Mine is not a detector, it has no reset and update"),
    ],
)
def test_a_file_that_does_not_load_is_bad_input(
    source: str, limits: dict[str, float], complaint: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(source)
    with pytest.raises(InputError) as caught:
        open_detector(f"{file}:Mine", Limits(**limits))  # type: ignore[arg-type]
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(f"detector {file}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "much"])
def test_limits_are_positive_numbers(value: Any) -> None:
    for name in ("row_seconds", "start_seconds", "memory_mb", "output_kb"):
        with pytest.raises(InputError, match=rf"{name}: .* is not allowed; allowed: a finite number above 0"):
            Limits(**{name: value})
    with pytest.raises(InputError, match=r"batch: .* is not allowed; allowed: 1 to 1024"):
        Limits(batch=value)

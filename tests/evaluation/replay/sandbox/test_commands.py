"""Commands: each way to answer wrongly is named, and the example in Perl says what its twin in Python says."""

import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.detectors.registry import load_detector
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.run import score
from trainwreck.evaluation.replay.replay import replay
from trainwreck.evaluation.replay.sandbox.confine import LAYERS
from trainwreck.evaluation.replay.sandbox.isolated import Isolated
from trainwreck.evaluation.replay.sandbox.opening import open_detector

PERL = Path(__file__).resolve().parents[4] / "docs" / "examples" / "loss_over_minimum.pl"
JSON_PP = ["perl", "-MJSON::PP", "-e", "1"]
needs_perl = pytest.mark.skipif(
    shutil.which("perl") is None or subprocess.run(JSON_PP, check=False, capture_output=True).returncode != 0,
    reason="perl with its core modules is not installed",
)
TIGHT = {"memory_mb": 100.0, "output_kb": 128.0}


@pytest.mark.parametrize(
    ("mode", "status"),
    [
        ("exits", "crashed: its process ended with exit code 4"),
        ("closes", "crashed: its process closed its output"),
        ("hangs", "timeout: no answer within 0.3 s"),
        ("hoards", "memory: "),
        ("floods", "output: an answer of more than 128 KiB"),
        ("floods_errors", "output: printed more than 128 KiB in a run"),
        ("text", "garbage: answered 'yes\\n'; allowed: one line of JSON"),
        ("nan", 'garbage: answered \'{"type": "verdict", "step": 7, "score": NaN}'),
        ("list", "garbage: answered '[7, 1.0]\\n'; allowed: an object with"),
        ("deep", "garbage: answered '[[["),
        ("binary", "garbage: answered '"),
        ("digits", "garbage: answered '"),
        ("other_type", 'garbage: answered \'{"type": "verdikt"'),
        ("past", "garbage: step: 6 lies in the past; allowed: 7, the step of the row"),
        ("future", "garbage: step: 8 lies in the future; allowed: 7, the step of the row"),
        ("no_step", "garbage: step: '\"7\"' is not allowed; allowed: 7"),
        ("no_score", "garbage: verdict: has no 'score'"),
        ("huge", "garbage: score: 1000"),
        ("says_so", "crashed: out of ideas"),
        ("word", "garbage: score: '1.0' is not allowed; allowed: a number"),
        ("true", "garbage: score: True is not allowed; allowed: a finite number"),
        ("alarm_of_one", "garbage: alarm: 1 is not allowed; allowed: True, False"),
        ("strange_cause", "garbage: causes: 'hi_lr' is not allowed; did you mean 'high_lr'?"),
        ("one_cause", "garbage: causes: 'high_lr' is not allowed; allowed: a tuple"),
        ("list_of_lists", "garbage: causes: ['high_lr'] is not allowed; allowed: cause ids"),
        ("misspelt", "garbage: verdict: 'alram' is not allowed; allowed: type, step, score, alarm, causes"),
        ("twice", "garbage: said "),
    ],
)
def test_each_failure_is_the_status_of_its_run(mode: str, status: str, opened: Any, make_trace: Any) -> None:
    detector = opened(f"cmd:{mode}", **TIGHT, row_seconds=0.3 if mode == "hangs" else 60.0)
    alarms = replay(detector, make_trace("r", steps=9))
    assert alarms.status.startswith(status)
    assert "\n" not in alarms.status
    assert alarms.steps.tolist()[:7] == list(range(7))
    assert alarms.first_alarm == 3
    assert alarms.stderr == (("farewell",) if mode == "exits" else alarms.stderr)
    after = replay(detector, make_trace("s", steps=7))
    assert (after.status, after.first_alarm, after.edges.tolist(), after.state_bytes) == ("ok", 3, [3], None)
    assert after.update_us > 0.0


def test_rows_hold_the_signals_that_it_asks_for(opened: Any, make_trace: Any) -> None:
    for signals in ("loss head_entropy", ""):
        assert replay(opened(f"cmd:signals {signals}"), make_trace("r", steps=7)).status == "ok"
    with pytest.raises(InputError, match=r"signals: 'los' is not allowed; did you mean 'loss'\?"):
        opened("cmd:signals los")


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("cmd:", "allowed: cmd:PROGRAM WORD ..."),
        ("cmd:   ", "allowed: cmd:PROGRAM WORD ..."),
        ("cmd:perl 'x", "(No closing quotation); allowed: cmd:PROGRAM WORD ..."),
        ("cmd:no_such_program_anywhere x", "'no_such_program_anywhere' is no program; allowed: one on the PATH"),
        (f"cmd:{sys.executable} -c 0", "does not load (crashed: its process ended with exit code 0)"),
        (f"cmd:{sys.executable} -c print(1)", "does not load (garbage: answered '1\\n'; allowed: an object with"),
        (f"cmd:{sys.executable} -c \"raise OSError('no model')\"", "it printed last: OSError: no model)"),
    ],
)
def test_a_command_that_does_not_load_is_bad_input(command: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        open_detector(command)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_version_is_refused(opened: Any) -> None:
    with pytest.raises(InputError, match="version: 2 is not allowed; allowed: 1"):
        opened("cmd:version")


@needs_perl
def test_the_example_in_perl_is_the_rule_in_python(make_trace: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(PERL.parent)  # a file is found from where the command was given
    data = load(sample())
    traces: list[Trace] = [data.trace(run_id) for run_id in data.runs.index[::5]]
    odd = make_trace("odd", steps=60)
    odd["loss"][[0, 9, 20, 30]] = math.nan, 0.3, math.inf, -math.inf
    traces += [odd, make_trace("short", steps=1), Trace("nothing", {}, np.zeros(5, bool))]
    rule = load_detector("loss_over_minimum")
    with open_detector(f"cmd:perl {PERL.name}") as perl:  # type: ignore[attr-defined]
        assert isinstance(perl, Isolated)
        alarmed = 0
        for trace in traces:
            here, there = replay(rule, trace), replay(perl, trace)
            assert there.status == "ok"
            assert (here.steps.tolist(), here.alarm.tolist()) == (there.steps.tolist(), there.alarm.tolist())
            np.testing.assert_allclose(there.scores, here.scores, rtol=1e-13)  # Perl prints fifteen digits
            alarmed += here.first_alarm is not None
    assert 2 < alarmed < len(traces)


@needs_perl
def test_its_name_on_the_board_has_no_folder(tmp_path: Path, write_small_data_set: Any) -> None:
    data = write_small_data_set(tmp_path)
    card = score(f"cmd:perl {PERL}", data)
    assert card.detector == "cmd:perl loss_over_minimum.pl"
    assert card.recall["default"].value == score("loss_over_minimum", data).recall["default"].value
    assert set(card.about.pop("confinement")) == set(LAYERS)
    assert card.about == {"name": "loss_over_minimum", "signals": ["loss"]}
    assert card.cost["state_bytes"] is None

"""`trainwreck watch` as a user calls it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

LOG = "step,loss\n" + "".join(f"{10 * i},{4 - i / 50}\n" for i in range(60))
ONE = ("--detector", "nonfinite_loss")


@pytest.fixture
def log(here: Path) -> Path:
    (here / "run.csv").write_text(LOG + "600,NaN\n", encoding="utf-8")
    (here / "calm.csv").write_text(LOG, encoding="utf-8")
    return Path("run.csv")


def test_the_exit_code_says_whether_there_was_an_alarm(call, log):
    result = call("watch", log, *ONE)
    assert result.code == 1
    assert result.out.splitlines() == [
        "ALARM  nonfinite_loss: alarm at step 600 (loss nan; score 1)",
        "the log ends: 61 rows, to step 600, 1 alarms",
    ]
    result = call("watch", "calm.csv", *ONE)
    assert (result.code, result.out) == (0, "the log ends: 60 rows, to step 590, 0 alarms\n")


def test_json_is_one_object_a_line(call, log):
    result = call("watch", log, *ONE, "--detector", "zclip", "--json")
    note, alarm, end = [json.loads(line) for line in result.out.splitlines()]
    assert note["note"] == "not logged in 50 rows: zclip lacks grad_norm (all that it reads)"
    assert (alarm["event"], alarm["step"], alarm["signals"]) == ("alarm", 600, {"loss": "NaN"})
    assert end == {"event": "end", "reason": "end", "rows": 61, "last_step": 600, "alarms": 1, "rules": {}}


def test_what_is_not_logged_is_said_on_stderr(call, log):
    result = call("watch", "calm.csv", "--detector", "zclip")
    assert result.err == "note: not logged in 50 rows: zclip lacks grad_norm (all that it reads)\n"


def test_a_command_gets_the_alarm_on_its_stdin(call, here, log):
    (here / "hook.py").write_text(
        "import json, pathlib, sys\nalarm = json.load(sys.stdin)\n"
        "pathlib.Path('heard').write_text(f\"{alarm['detector']} {alarm['step']}\")\nsys.exit(3)\n",
        encoding="utf-8",
    )
    result = call("watch", log, *ONE, "--on-alarm", f"cmd:{sys.executable} hook.py")
    assert result.code == 1
    assert (here / "heard").read_text() == "nonfinite_loss 600"
    assert f"{sys.executable}: exit code 3" in result.err
    assert "the log ends" in result.out


def test_stop_sends_a_signal_to_the_training(call, log):
    training = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        result = call("watch", log, *ONE, "--follow", "--on-alarm", "stop", "--pid", training.pid, "--every", "0.01")
        assert training.wait(timeout=60) == -signal.SIGTERM
    finally:
        training.kill()
        training.wait()
    assert result.code == 1
    assert f"SIGTERM sent to process {training.pid}" in result.err
    assert "stopped by the alarm: 61 rows, to step 600" in result.out


def test_it_ends_with_the_training(call, log):
    training = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    rows = iter(range(600, 10_000, 10))
    seen = []

    from trainwreck.evaluation.live.training_process import TrainingProcess

    def runs(process: TrainingProcess) -> bool:
        seen.append(process.pid)
        if len(seen) == 4:  # it was there, and one look went by
            training.communicate(b"\n", timeout=60)
            with Path("calm.csv").open("a") as file:
                file.write(f"{next(rows)},NaN\n")
        return real(process)

    real = TrainingProcess.runs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingProcess, "runs", runs)
        result = call("watch", "calm.csv", *ONE, "--follow", "--pid", training.pid, "--every", "0.01")
    assert result.code == 1
    assert "step 600  loss nan" in result.out  # what came before it ended was read
    assert "the process is gone: 61 rows" in result.out


@pytest.mark.usefixtures("interruptible")
def test_it_can_be_interrupted(here, log):
    words = [sys.executable, "-m", "trainwreck", "watch", "calm.csv", *ONE, "--follow", "--every", "0.01"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    watcher = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert watcher.stdout
    assert watcher.stdout.readline() == "step 590  loss 2.82\n"  # it has read the log, and waits
    watcher.send_signal(signal.SIGINT)
    _, err = watcher.communicate(timeout=60)
    assert watcher.returncode == 130
    assert err.strip().splitlines()[-1].startswith("trainwreck: interrupted")
    assert "Traceback" not in err


def test_bad_words_are_refused(call, here, log):
    call("watch", "nowhere.csv", *ONE).refused("nowhere.csv: no such file or folder")
    call("watch", log).refused("--detector")
    call("watch", log, "--detector", "zclop").refused("did you mean 'zclip'?")
    call("watch", log, *ONE, "--on-alarm", "cmd:no-such-command").refused(
        "'cmd:no-such-command' is not allowed; allowed: log, stop, or cmd: and a command",
    )
    call("watch", log, *ONE, "--on-alarm", "touch ran").refused("'touch ran' is not allowed; allowed: log, stop, or")
    assert not (here / "ran").exists()
    call("watch", log, *ONE, "--on-alarm", "cmd:'").refused("is not a command")
    call("watch", log, *ONE, "--format", "wandb").refused("wandb is written whole, not row by row")
    call("watch", log, *ONE, "--map", "x=loss").refused("no log has a column 'x'")
    call("watch", log, *ONE, "--pid", "1").refused("--pid: 1 is not allowed without --follow")
    call("watch", log, *ONE, "--idle", "5").refused("--idle: 5 is not allowed without --follow")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    call("watch", log, *ONE, "--follow", "--pid", gone.pid).refused("allowed: a process that runs")
    for pid in (0, 1, -1, os.getpid(), 2**22 + 1, 2**31, 10**30):
        call("watch", log, *ONE, "--follow", "--pid", pid).refused(f"--pid: {pid} is not allowed", "training's process")
    call("watch", log, *ONE, "--follow", "--kill-after", "1").refused("--kill-after: 1 is not allowed", "with --pid")
    for option in ("--idle", "--every"):
        for value in ("nan", "inf", "1e400", "-1"):
            call("watch", log, *ONE, "--follow", option, value).refused(option)
    (here / "bad.csv").write_text("step,loss\n1,2\n2,two\n", encoding="utf-8")
    call("watch", "bad.csv", *ONE).refused("bad.csv, line 3: column 'loss': 'two' is not a number")


def test_a_detector_that_crashes_is_told(call, here, log):
    (here / "mine.py").write_text(
        "class Mine:\n    def reset(self, context): pass\n    def update(self, row): return row['lr'] > 1\n",
        encoding="utf-8",
    )
    result = call("watch", log, "--detector", "mine.py:Mine", *ONE)
    assert result.code == 2
    assert "nonfinite_loss: alarm at step 600" in result.out  # the other one goes on
    assert result.err.splitlines()[-1].startswith("trainwreck: detector mine.py:Mine: crashed: TypeError")

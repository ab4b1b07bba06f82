"""The process that `watch --pid` ends: that one, also when it ignores SIGTERM, and no other."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.live import training_process
from trainwreck.evaluation.live.training_process import TrainingProcess, start_time

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"


@pytest.fixture
def stubborn() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ignores SIGTERM."""
    child = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    yield child
    child.kill()
    child.communicate()


@pytest.fixture(params=["pidfd", "start time"])
def held(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """By what a process is known: the second as on a system without pidfd."""
    if request.param == "start time":
        monkeypatch.delattr(os, "pidfd_open", raising=False)


@pytest.mark.usefixtures("held")
def test_sigterm_ignored_is_said_and_nothing_more(
    stubborn: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_process, "PATIENCE", 0.3)
    notes: list[str] = []
    TrainingProcess(stubborn.pid).end(notes.append, None)
    assert notes == [
        f"SIGTERM sent to process {stubborn.pid}",
        f"process {stubborn.pid} goes on 0.3 s after SIGTERM; --kill-after SECONDS ends it by SIGKILL",
    ]
    assert stubborn.poll() is None


@pytest.mark.usefixtures("held")
def test_sigkill_where_it_is_asked_for(stubborn: subprocess.Popen[bytes]) -> None:
    notes: list[str] = []
    TrainingProcess(stubborn.pid).end(notes.append, 0.3)
    assert notes[1:] == [
        f"process {stubborn.pid} goes on 0.3 s after SIGTERM",
        f"SIGKILL sent to process {stubborn.pid}",
    ]
    assert stubborn.wait(timeout=60) == -signal.SIGKILL


@pytest.mark.usefixtures("held")
def test_a_zombie_is_no_process_that_runs(stubborn: subprocess.Popen[bytes]) -> None:
    process = TrainingProcess(stubborn.pid)
    assert process.runs()
    stubborn.kill()
    os.waitid(os.P_PID, stubborn.pid, os.WEXITED | os.WNOWAIT)  # ended, and its entry stays: a zombie
    assert not process.runs()
    assert start_time(stubborn.pid) == ""
    with pytest.raises(InputError, match="a process that runs"):
        TrainingProcess(stubborn.pid)
    notes: list[str] = []
    process.end(notes.append, 1.0)
    assert notes == [f"process {stubborn.pid}: no signal could be sent (it has ended)"]


def test_another_process_under_the_same_number_gets_no_signal(
    stubborn: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    process = TrainingProcess(stubborn.pid)
    monkeypatch.setattr(training_process, "start_time", lambda pid: "another time")
    notes: list[str] = []
    process.end(notes.append, 0.1)
    assert notes == [f"process {stubborn.pid}: no signal could be sent (it has ended)"]
    assert stubborn.poll() is None


def test_a_number_used_again_while_it_was_looked_up_is_refused(
    stubborn: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(["1", "2"])
    monkeypatch.setattr(training_process, "start_time", lambda pid: next(times))
    with pytest.raises(InputError, match="a process that runs"):
        TrainingProcess(stubborn.pid)

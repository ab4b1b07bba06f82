"""No detector outlives the harness, however that ends."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from trainwreck.evaluation.replay.sandbox import confine
from trainwreck.evaluation.replay.sandbox.usage import tree

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="watches processes by file descriptors, as Linux has")

PATIENCE = 60_000  # milliseconds

DETECTOR = """
import os, subprocess, sys
from pathlib import Path

class Stuck:
    def reset(self, context): pass
    def update(self, row):
        pause = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]
        for _ in range(CHILDREN):
            subprocess.Popen(pause, start_new_session=True)
        Path("stuck").touch()
        while True:
            pass
"""

HARNESS = """
import signal
import sys
import numpy as np
from trainwreck.evaluation.replay.sandbox import confine
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.opening import open_detector
from trainwreck.evaluation.replay.replay import replay
from trainwreck.evaluation.dataset.trace import Trace

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
confine.LAYERS = sys.argv[3].split()
with open_detector(sys.argv[1], Limits(row_seconds=float(sys.argv[2]))) as detector:
    print(replay(detector, Trace("r", {}, np.zeros(3, bool)), known=()).status)
"""


def begin(
    folder: Path, seconds: float, children: int, layers: Sequence[str]
) -> tuple["subprocess.Popen[str]", list[int]]:
    """The harness on a detector that is stuck, and file descriptors of all processes below it."""
    file = folder / "stuck.py"
    file.write_text(DETECTOR.replace("CHILDREN", str(children)))
    words = [sys.executable, "-c", HARNESS, f"{file}:Stuck", str(seconds), " ".join(layers)]
    (folder / "temporary").mkdir()  # what a harness that is killed leaves behind is an empty folder there
    where = os.environ | {"TMPDIR": str(folder / "temporary")}
    harness = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=where)
    waiting = select.poll()
    for _ in range(PATIENCE // 20):
        if list(folder.glob("temporary/*/stuck")):
            break
        assert harness.poll() is None, harness.communicate()
        waiting.poll(20)
    found = tree(harness.pid)[1:]
    assert len(found) >= 2 + children, found  # its supervisor and itself
    return harness, [os.pidfd_open(number) for number in found]


def ends(process: int) -> bool:
    """Whether a process ends before patience does. process: its file descriptor, closed here."""
    waiting = select.poll()
    waiting.register(process, select.POLLIN)
    try:
        return bool(waiting.poll(PATIENCE))
    finally:
        os.close(process)


LAYERS = pytest.mark.parametrize("layers", [confine.LAYERS, ("subreaper",)], ids=["confined", "subreaper"])


@LAYERS
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM], ids=lambda how: how.name)
def test_when_the_harness_is_ended(how: signal.Signals, layers: Sequence[str], tmp_path: Path) -> None:
    harness, processes = begin(tmp_path, 1000.0, 3, layers)
    harness.send_signal(how)
    _, err = harness.communicate()
    assert harness.returncode != 0
    assert ("KeyboardInterrupt" in err) == (how is signal.SIGINT)
    assert [ends(process) for process in processes] == [True] * len(processes)
    if how is signal.SIGINT:
        assert list((tmp_path / "temporary").iterdir()) == []


@LAYERS
def test_when_it_is_killed_its_own_children_are_too(layers: Sequence[str], tmp_path: Path) -> None:
    """In sessions of their own, where a signal to the detector's group does not reach them."""
    harness, processes = begin(tmp_path, 5.0, 100, layers)
    out, err = harness.communicate()
    assert (harness.returncode, err) == (0, "")
    assert out == "timeout: no answer within 5 s\n"
    assert [ends(process) for process in processes] == [True] * len(processes)


def test_a_user_who_interrupts_leaves_nothing(tmp_path: Path, opened: Any, make_trace: Any, monkeypatch: Any) -> None:
    """Within one process, where the detector's is still there to be closed after the interrupt."""
    from trainwreck.evaluation.replay.replay import replay
    from trainwreck.evaluation.replay.sandbox.process import Process

    detector = opened("Good")
    assert replay(detector, make_trace("r", steps=3)).status == "ok"
    process = os.pidfd_open(detector._remote._process._process.pid)
    folder = Path(detector._remote._process._folder)
    assert folder.is_dir()

    def interrupted(self: Process) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Process, "_receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replay(detector, make_trace("r", steps=3))
    assert ends(process)
    assert not folder.exists()

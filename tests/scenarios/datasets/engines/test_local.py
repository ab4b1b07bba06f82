"""Worker processes die alone, are short of memory alone, and end with their parent."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trainwreck.scenarios.datasets.engines.call import Call, End, Ended, attempt, is_shortage
from trainwreck.scenarios.datasets.engines.limits import available, group_limits
from trainwreck.scenarios.datasets.engines.local import InProcess, Local, Processes

MIB = 2**20
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the limit on a worker's memory is Linux's")


@pytest.fixture
def two():
    engine = Processes(2)
    yield engine
    engine.close()


def hear(engine, count) -> dict[int, Ended]:
    """By ticket, of so many calls."""
    found: dict[int, Ended] = {}
    while len(found) < count:
        found |= {ended.ticket: ended for ended in engine.ended(None)}
    return found


@LINUX
def test_a_worker_dies_alone_and_another_takes_its_place(two, tmp_path):
    """One is killed while the other waits for it to be dead; then both places have a worker again."""
    os.mkfifo(tmp_path / "gate")

    def killed(width):  # a local function travels to the worker as it is
        os.kill(os.getpid(), signal.SIGKILL)

    def waiting(gate, width):
        return os.getpid(), Path(gate).read_text(encoding="utf-8")

    two.submit([Call(1, waiting, (str(tmp_path / "gate"),), 1), Call(2, killed, (), 1)])
    (lost,) = two.ended(None)
    assert (lost.ticket, lost.end) == (2, End.LOST)
    assert lost.why == "lost its worker, which was killed, out of memory perhaps"
    (tmp_path / "gate").write_text("open", encoding="utf-8")
    found = hear(two, 1)
    assert found[1].end is End.DONE
    assert found[1].value[1] == "open"
    two.submit([Call(3, lambda width: os.getpid(), (), 1), Call(4, lambda width: os.getpid(), (), 1)])
    found = hear(two, 2)
    assert {ended.end for ended in found.values()} == {End.DONE}
    assert os.getpid() not in {ended.value for ended in found.values()}


@LINUX
def test_a_worker_that_died_while_it_was_idle_is_no_error(two):
    two.submit([Call(1, lambda width: os.getpid(), (), 1)])
    victim = hear(two, 1)[1].value
    os.kill(victim, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):  # the engine may have seen it end, and reaped it, before us
        os.waitid(os.P_PID, victim, os.WEXITED | os.WNOWAIT)
    two.submit([Call(2, lambda width: os.getpid(), (), 1)])
    ended = hear(two, 1)[2]
    assert ended.end is End.LOST or (ended.end is End.DONE and ended.value != victim)


@LINUX
def test_a_worker_takes_no_more_than_its_share(two):
    """What it asks for above is a shortage, and not the system's."""

    def hungry(width):
        return len([bytearray(32 * 2**20) for _ in range(width)])

    two.submit([Call(1, hungry, (), 40, 512 * MIB), Call(2, hungry, (), 2, 512 * MIB)])
    found = hear(two, 2)
    assert (found[1].end, found[1].why) == (End.SHORT, "was short of memory")
    assert (found[2].end, found[2].value) == (End.DONE, 2)


def test_an_exception_comes_back_with_where_it_was(two):
    def failing(width):
        raise KeyError("no such layer")

    two.submit([Call(1, failing, (), 1)])
    ended = hear(two, 1)[1]
    assert ended.end is End.RAISED
    assert isinstance(ended.value, KeyError)
    assert "in failing" in ended.value.__notes__[0]


PARENT = """
import os, sys
from trainwreck.scenarios.datasets.engines.call import Call
from trainwreck.scenarios.datasets.engines.local import Processes

def work(path, width):
    with open(path, "w") as pipe:
        pipe.write("alive")
        pipe.flush()
        while True:
            pass  # at work: it looks at nothing

if __name__ == "__main__":
    engine = Processes(2)
    engine.submit([Call(1, work, (sys.argv[1],), 1)])
    engine.ended(None)
"""


@LINUX
def test_no_worker_outlives_its_parent(tmp_path):
    """The parent is killed; the pipe that only the worker holds open closes when the worker is gone."""
    os.mkfifo(tmp_path / "pipe")
    parent = subprocess.Popen([sys.executable, "-P", "-c", PARENT, str(tmp_path / "pipe")])
    with (tmp_path / "pipe").open(encoding="utf-8") as pipe:
        assert pipe.read(5) == "alive"
        parent.kill()
        parent.wait()
        assert pipe.read() == ""


def test_one_worker_is_this_process():
    engine = Local(1).start(9)
    assert isinstance(engine, InProcess)
    engine.submit([Call(1, lambda width: (os.getpid(), width), (), 7)])
    assert engine.ended(None)[0].value == (os.getpid(), 7)
    assert isinstance(Local(4).start(1), InProcess)


def test_memory_is_shared_out_among_the_workers():
    assert Local(4, memory=8 * MIB).share("cpu") == 2 * MIB
    assert Local(4).share("cpu") == pytest.approx(0.75 * available() / 4, abs=1)
    assert Local(4, memory=8 * MIB).fit(5 * MIB, "cpu") == Local(4, 8 * MIB)  # as asked for
    assert Local(None, memory=8 * MIB).fit(5 * MIB, "cpu") == Local(1, 8 * MIB)
    assert Local(None, memory=8 * MIB).fit(9 * MIB, "cpu") == Local(1, 8 * MIB)  # what is too small is told later


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (MemoryError(), True),
        (OSError(12, "Cannot allocate memory"), True),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
            True,
        ),
        (OSError(28, "No space left on device"), False),
        (RuntimeError("shapes differ"), False),
    ],
    ids=str,
)
def test_a_shortage_is_known_by_what_says_it(error, short):
    assert is_shortage(error) is short

    def raising(width):
        raise error

    assert attempt(Call(1, raising, (), 1)).end is (End.SHORT if short else End.RAISED)


def test_the_limits_of_control_groups_count_those_they_are_in_too(tmp_path):
    for folder, name, text in (
        ("user.slice/job_7", "memory.max", "max\n"),
        ("user.slice", "memory.max", f"{3 * MIB}\n"),
        ("memory/slurm/job_7", "memory.limit_in_bytes", f"{2 * MIB}\n"),
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / name).write_text(text, encoding="ascii")
    assert group_limits(["0::/user.slice/job_7"], tmp_path) == [3 * MIB]
    assert group_limits(["4:cpu,memory:/slurm/job_7", "3:pids:/user.slice"], tmp_path) == [2 * MIB]
    assert group_limits(["0::/elsewhere"], tmp_path) == []

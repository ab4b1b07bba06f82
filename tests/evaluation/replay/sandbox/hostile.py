"""Detectors that alarm at step 3 and do harm at step 7, each in its own way."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from trainwreck.evaluation.detectors.base import Detector, Verdict

PAUSE = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]


class Hostile(Detector):
    def update(self, row):
        return self.act() if row["step"] == 7 else Verdict(float(row["step"]), row["step"] == 3)

    def act(self):
        return False


class Surrogate(Hostile):
    rule = "a \ud800 and \x1b[2J"
    causes = ("\x1b]0;title\x07",)

    def act(self):
        raise ValueError("\ud800 and \x1b[31m\u202e")


class NoText(Hostile):
    def act(self):
        class UnprintableError(Exception):
            def __str__(self):
                raise RuntimeError

        raise UnprintableError


class DeepCauses(Hostile):
    def act(self):
        deep = []
        for _ in range(100_000):
            deep = [deep]
        return Verdict(1.0, True, (deep,))


class DeepFolders(Hostile):
    def act(self):
        for _ in range(3000):
            Path("d").mkdir()
            os.chdir("d")
        Path("file").write_text("at the end")
        return False


class ClosedFolders(Hostile):
    def act(self):
        Path("a/b/c").mkdir(parents=True)
        Path("a/b/c/file").touch()
        Path("a/b").chmod(0)
        Path("a").chmod(0)
        return False


class OneLargeFile(Hostile):
    def act(self):
        with Path("large").open("wb") as file:
            while True:
                file.write(bytes(2**20))


class LargeFiles(Hostile):
    def act(self):
        for i in range(10**6):
            Path(f"large{i}").write_bytes(bytes(2**20))
            time.sleep(0.01)


class ManyFiles(Hostile):
    def act(self):
        for i in range(10**7):
            Path(str(i)).touch()


class ManyProcesses(Hostile):
    def act(self):
        for _ in range(400):
            subprocess.Popen(PAUSE, start_new_session=True)
        time.sleep(1000.0)


class ChildrenHoard(Hostile):
    def act(self):
        hoard = "held = bytearray(b'1') * (150 * 2**20); import signal; signal.pause()"
        for _ in range(4):
            subprocess.Popen([sys.executable, "-I", "-S", "-c", hoard], start_new_session=True)
        time.sleep(1000.0)


class Dawdles(Hostile):
    def update(self, row):
        time.sleep(0.1)


class PatchesTheClock(Hostile):
    def update(self, row):
        time.perf_counter_ns = time.perf_counter = time.monotonic = lambda: 0
        time.sleep(0.005)


class Signals(Hostile):
    """To whatever process it can find; for real to the first process of its namespace alone."""

    def act(self):
        if os.getppid() == 1:
            os.kill(1, signal.SIGKILL)
        found = []
        for pid in range(1, 50_000):
            try:
                os.kill(pid, 0)
            except OSError:
                continue
            if pid != os.getpid():
                found.append(pid)
        raise RuntimeError(f"found {found}")


class Reads(Hostile):
    """The files of a list beside its own."""

    def act(self):
        found = []
        for path in Path(__file__).with_name("paths").read_text().split():
            try:
                found.append(Path(path).read_bytes()[:4].decode())
            except OSError as error:
                found.append(type(error).__name__)
        raise RuntimeError(" ".join(found))


class Writes(Hostile):
    def act(self):
        found = []
        for path in ("own", Path(__file__).with_name("other"), "/dev/null", Path("/", "tmp", "other"), "/dev/shm/own"):
            try:
                Path(path).write_text("written")
                found.append("written")
            except OSError as error:
                found.append(type(error).__name__)
        raise RuntimeError(" ".join(found))


class Calls(Hostile):
    def act(self):
        try:
            socket.create_connection(("127.0.0.1", 9), timeout=1.0)
        except OSError as error:
            raise RuntimeError(type(error).__name__) from None

"""The process of a training that is watched: the one that was named, and no other that gets its number later.

On Linux it is held by a pidfd (pidfd_open(2)), which stays the same process when its number is used again, and tells a
process that ended and is still in the table (a zombie). Elsewhere it is known by the time at which it began.
"""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from trainwreck.evaluation.errors import InputError

LAST_PID = 2**22  # PID_MAX_LIMIT of Linux on 64 bits; macOS and BSD have smaller ones
PATIENCE = 10.0  # seconds after SIGTERM until a process that goes on is reported
POLL = 0.1  # seconds between two looks at a process without a pidfd


class TrainingProcess:
    """A running process by its number. InputError for one that is not there, or that must not be ended."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        if not 2 <= pid <= LAST_PID:
            why = "process 1 starts and ends all others" if pid == 1 else "no process has it"
            raise InputError(f"--pid: {pid} is not allowed, {why}; allowed: the training's process")
        if pid == os.getpid():
            raise InputError(f"--pid: {pid} is not allowed, it is the watch itself; allowed: the training's process")
        began = start_time(pid)
        try:
            self._fd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
        except OSError:  # not there, or a kernel before 5.3
            self._fd = -1
        self._began = start_time(pid)
        if not began or began != self._began or not self.runs():
            self.close()
            raise InputError(f"--pid: {pid} is not allowed; allowed: a process that runs")

    def runs(self) -> bool:
        """Whether this process goes on: not gone, not a zombie, not another one under its number."""
        if self._fd >= 0:
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)  # readable from the end of the process on
            return not poll.poll(0)
        return start_time(self.pid) == self._began

    def end(self, say: Callable[[str], object], kill_after: float | None) -> None:
        """Send SIGTERM, and wait until it has ended. What goes wrong is said.

        kill_after: seconds until SIGKILL; None for never.
        """
        if not self._sent(signal.SIGTERM, say) or self._gone_within(PATIENCE if kill_after is None else kill_after):
            return
        waited = f"process {self.pid} goes on {PATIENCE if kill_after is None else kill_after:g} s after SIGTERM"
        if kill_after is None:
            say(f"{waited}; --kill-after SECONDS ends it by SIGKILL")
            return
        say(waited)
        if self._sent(signal.SIGKILL, say) and not self._gone_within(PATIENCE):
            say(f"process {self.pid} goes on {PATIENCE:g} s after SIGKILL: the kernel holds it")

    def close(self) -> None:
        """Let go of the process."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _sent(self, number: signal.Signals, say: Callable[[str], object]) -> bool:
        try:
            if not self.runs():
                raise ProcessLookupError(0, "it has ended")
            if self._fd >= 0:
                signal.pidfd_send_signal(self._fd, number)
            else:
                os.kill(self.pid, number)
        except OSError as error:
            say(f"process {self.pid}: no signal could be sent ({error.strerror})")
            return False
        say(f"{number.name} sent to process {self.pid}")
        return True

    def _gone_within(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self.runs():
            if time.monotonic() >= end:
                return False
            time.sleep(min(POLL, seconds))
        return True


def start_time(pid: int) -> str:
    """When a process began, as the system counts it; empty where there is none, or a zombie."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_bytes().rpartition(b")")[2].split()  # the name before may hold blanks and brackets
        except OSError:
            return ""
        return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
    done = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, began = done.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else began.strip()

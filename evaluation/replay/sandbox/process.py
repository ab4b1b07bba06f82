"""A child process that answers messages by lines within limits, or fails in a way that can be told."""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

from trainwreck.evaluation.replay.alarms import CRASHED, GARBAGE, MEMORY, OUTPUT, TIMEOUT
from trainwreck.evaluation.replay.sandbox.limits import Limits

LOOK_SECONDS = 0.02  # between two looks at the clock, the memory and the progress of a process
GRACE_SECONDS = 1.0  # for a process whose output has ended to end as well
CHUNK = 2**16
MOST_READS = 64  # at its end; a pipe holds less, but someone else may go on writing
LINES, LINE = 10, 200  # of what it printed, kept

# Nothing of the user's environment but what programs need to be found and to run.
KEPT = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TZ", "USER", "VIRTUAL_ENV")
GIVEN = {
    "OMP_NUM_THREADS": "1",  # there is a process for each core already
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUNBUFFERED": "1",
    "PYTHONFAULTHANDLER": "1",
}


class FailedError(Exception):
    """A detector broke off.

    kind: one of `status.FAILURES_OF_A_DETECTOR`. alive: whether it can go on with other runs. printed: the last lines,
    where it never came to a run.
    """

    def __init__(self, kind: str, reason: str, *, alive: bool = False) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind, self.alive = kind, alive
        self.printed: tuple[str, ...] = ()


class Process:
    """A command in an empty folder, a session and a group of its own.

    argv: the program and its words. `close` must be called.
    """

    def __init__(self, argv: Sequence[str], limits: Limits) -> None:
        self.limits = limits
        self._folder = tempfile.mkdtemp(prefix="trainwreck-detector-")
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=self._folder,
                env={name: os.environ[name] for name in KEPT if name in os.environ} | GIVEN | {"TMPDIR": self._folder},
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._err = self._process.stderr.fileno()
        for pipe in (self._in, self._out, self._err):
            os.set_blocking(pipe, False)
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self._poll.register(self._err, select.POLLIN)
        self._buffer = bytearray()
        self._printed = bytearray()
        self._printed_bytes = 0
        self._next_look = 0.0
        self._hears, self._sending, self._closed = True, False, False

    def forget(self) -> None:
        """Reset the count and the kept lines of what it prints."""
        self._drain()
        self._printed.clear()
        self._printed_bytes = 0

    def ask(self, message: bytes, seconds: float, count: int = 1) -> Iterator[bytes]:
        """Send a message and give the lines of its answer, `count` of them, each as it comes.

        seconds: without a line. Raises FailedError for whatever else happens, after the lines that came before it.
        """
        if self._buffer:
            raise FailedError(GARBAGE, f"said {brief(bytes(self._buffer))} before it was asked")
        unsent, deadline = memoryview(message), monotonic() + seconds
        failure: FailedError | None = None
        while count and failure is None:
            try:
                unsent = self._send(unsent)
                self._poll_once(LOOK_SECONDS)
                if (now := monotonic()) >= self._next_look:
                    self._next_look = now + LOOK_SECONDS
                    self._look_at_memory()
            except FailedError as error:
                failure = error
                self._receive_rest()
            while count and (length := self._buffer.find(b"\n") + 1):
                line = bytes(self._buffer[:length])
                del self._buffer[:length]
                count -= 1
                yield line
                deadline = monotonic() + seconds
            if failure is None and len(self._buffer) > 1024 * self.limits.output_kb:
                failure = FailedError(OUTPUT, f"an answer of more than {self.limits.output_kb:g} KiB")
            if failure is None and count and monotonic() > deadline:
                failure = FailedError(TIMEOUT, f"no answer within {seconds:g} s")
        if failure is not None:
            raise failure

    def check_silent(self) -> None:
        """Raises FailedError where it said something that it was not asked for."""
        self._poll_once(0.0)
        if self._buffer:
            raise FailedError(GARBAGE, f"said {brief(bytes(self._buffer))} without being asked")

    def last_lines(self) -> tuple[str, ...]:
        """The end of what it printed, without control characters."""
        if not self._closed:
            self._drain()
        text = self._printed.decode("utf-8", "replace")
        lines = [re.sub(r"[^\x20-\x7e\xa0-\U0010ffff]", "?", line.replace("\t", " ")) for line in text.splitlines()]
        return tuple(line[:LINE] for line in lines if line.strip())[-LINES:]

    def close(self, grace: float = 0.0) -> None:
        """End it and all of its group, after `grace` seconds in which it may end by itself."""
        if self._closed:
            return
        self._closed = True
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._process.stdin.close()
        self._await(grace)
        self._kill()
        self._drain()
        self._process.stdout.close()
        self._process.stderr.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _kill(self) -> int:
        """Exit code of the process, after it and all of its group are killed."""
        if self._process.returncode is None:
            # Before it is waited for: until then nobody else can get its number. macOS reports a group of the dead
            # as one that may not be killed.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait()

    def _await(self, seconds: float) -> bool:
        """Wait until it has ended, which leaves it to be waited for, or so long. Whether it has."""
        deadline, nothing = monotonic() + seconds, select.poll()
        while self._process.returncode is None:
            if os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return True
            if monotonic() >= deadline:
                return False
            nothing.poll(2)
        return True

    def _send(self, unsent: memoryview) -> memoryview:
        if not unsent:
            return unsent
        try:
            unsent = unsent[os.write(self._in, unsent) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            raise self._ended() from None
        if unsent:
            self._poll.register(self._in, select.POLLOUT)
            self._sending = True
        elif self._sending:
            self._poll.unregister(self._in)
            self._sending = False
        return unsent

    def _poll_once(self, seconds: float) -> None:
        """Take what it says and prints, waiting for it so long at most."""
        for pipe, _ in self._poll.poll(1e3 * seconds):
            if pipe == self._out:
                self._receive()
            elif pipe == self._err:
                self._listen()

    def _receive(self) -> None:
        data = os.read(self._out, CHUNK)
        if not data:
            raise self._ended()
        self._buffer += data

    def _receive_rest(self) -> None:
        """What it had said already when it failed."""
        with suppress(BlockingIOError):
            for _ in range(MOST_READS):
                self._buffer += os.read(self._out, CHUNK)

    def _listen(self) -> None:
        """Take what it printed. Raises FailedError where that is too much."""
        if self._take() and self._printed_bytes > 1024 * self.limits.output_kb:
            raise FailedError(OUTPUT, f"printed more than {self.limits.output_kb:g} KiB in a run")

    def _drain(self) -> None:
        for _ in range(MOST_READS):
            if not self._take():
                break

    def _take(self) -> bool:
        """Whether there was something to take, now."""
        try:
            data = os.read(self._err, CHUNK)
        except BlockingIOError:
            return False
        if not data and self._hears:
            self._poll.unregister(self._err)
            self._hears = False
        self._printed_bytes += len(data)
        self._printed = (self._printed + data)[-LINES * 4 * LINE :]
        return bool(data)

    def _ended(self) -> FailedError:
        """Its output is closed: how it ended."""
        by_itself = self._await(GRACE_SECONDS)
        code = self._kill()
        if not by_itself:
            return FailedError(CRASHED, "its process closed its output")
        return FailedError(CRASHED, f"its process ended with {how_it_ended(code)}")

    def _look_at_memory(self) -> None:
        if sys.platform != "linux":
            return
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()[1])
        except (OSError, IndexError):  # it has ended, which its output tells
            return
        resident = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        if resident > self.limits.memory_mb:
            raise FailedError(MEMORY, f"{resident:.0f} MiB are more than {self.limits.memory_mb:g} MiB")


def how_it_ended(code: int) -> str:
    """Of an exit code as `subprocess` gives it."""
    if code >= 0:
        return f"exit code {code}"
    named = -code in set(signal.Signals)  # those for real time have numbers only
    return f"signal {signal.Signals(-code).name if named else -code}"


def brief(said: bytes, limit: int = 60) -> str:
    """Bytes for a message of one line."""
    text = ascii(said.decode("utf-8", "replace"))
    return text if len(text) <= limit else text[: limit - 4] + "...'"

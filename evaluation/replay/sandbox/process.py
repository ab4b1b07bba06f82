"""A confined child process that answers messages by lines within limits, or fails in a way that can be told."""

import json
import os
import select
import signal
import site
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

from trainwreck.evaluation.errors import printable
from trainwreck.evaluation.replay.alarms import CRASHED, DISK, GARBAGE, MEMORY, OUTPUT, PROCESSES, TIMEOUT
from trainwreck.evaluation.replay.sandbox import confine, usage
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.readable import PROC, Files, devices

LOOK_SECONDS = 0.02  # between two looks at the clock, the memory and the progress of a process
FOLDER_SECONDS = 1.0  # between two looks at its folder
MOST_PROCESSES = 128
ON_LINUX = sys.platform == "linux"
GRACE_SECONDS = 1.0  # for a process whose output has ended to end as well
END_SECONDS = 5.0  # for the supervisor to end all that the process began
CHUNK = 2**16
MOST_READS = 64  # at its end; a pipe holds less, but someone else may go on writing
OUT_OF_TIME = "all the time for its runs is spent"
LINES, LINE = 10, 200  # of what it printed, kept

# Nothing of the user's environment but what programs need to be found and to run.
KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TZ", "VIRTUAL_ENV")
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
        reason = printable(reason)
        super().__init__(f"{kind}: {reason}")
        self.kind, self.reason, self.alive = kind, reason, alive
        self.printed: tuple[str, ...] = ()


class Process:
    """A command in an empty folder, a session and a group of its own, confined as far as the system can.

    argv: the program and its words. files: that it may read. layers: of its confinement, whether each holds, or why
    not. until: the time, of `monotonic`, at which it is out of time whatever it answers. `close` must be called.
    """

    def __init__(self, argv: Sequence[str], limits: Limits, files: Files) -> None:
        self.limits, self.until = limits, inf
        self._folder = tempfile.mkdtemp(prefix="trainwreck-detector-")
        ours, its = socket.socketpair()
        assert confine.__file__
        given = GIVEN | {"HOME": self._folder, "TMPDIR": self._folder}
        if site.ENABLE_USER_SITE:
            given["PYTHONUSERBASE"] = site.getuserbase()
        try:
            # -I and -S: nothing but the standard library, within some ten milliseconds.
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", confine.__file__, str(its.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=self._folder,
                env={name: os.environ[name] for name in KEPT if name in os.environ} | given,
                start_new_session=True,
                pass_fds=[its.fileno()],
            )
        except BaseException:
            ours.close()
            usage.remove(Path(self._folder))
            raise
        finally:
            its.close()
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
        self._next_look = self._next_look_at_files = 0.0
        self._hears, self._sending, self._closed = True, False, False
        self.layers: dict[str, Any] = {}
        try:
            self.layers = self._confined(ours, argv, files)
        except BaseException:  # an interrupt too
            self.close()
            raise
        finally:
            ours.close()
        self._ours = 2 if self.layers.get("namespaces") is True else 1  # processes that are not the detector's

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
                    self._look_at_usage(now)
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
            if failure is None and count and (now := monotonic()) > min(deadline, self.until):
                out = now > self.until
                failure = FailedError(TIMEOUT, OUT_OF_TIME if out else f"no answer within {seconds:g} s")
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
        lines = [printable(line, LINE) for line in text.splitlines()[-4 * LINES :]]
        return tuple(line for line in lines if line)[-LINES:]

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
        usage.remove(Path(self._folder))

    def _confined(self, ours: socket.socket, argv: Sequence[str], files: Files) -> dict[str, Any]:
        """Say what is to be run, and get which layers of confinement hold. Raises FailedError."""
        order = {
            "words": list(argv),
            "parent": os.getpid(),
            "layers": confine.LAYERS if self.limits.confined else ("subreaper",),
            **files._asdict(),
            "writable": [self._folder, *devices()],
            "proc": [f"/proc/{name}" for name in PROC],
            "data_bytes": int(2 * self.limits.memory_mb * 2**20),
            "file_bytes": int(self.limits.disk_mb * 2**20),
        }
        ours.settimeout(self.limits.start_seconds)
        received = b""
        with suppress(OSError):
            ours.sendall(json.dumps(order).encode())
            ours.shutdown(socket.SHUT_WR)
            while part := ours.recv(CHUNK):
                received += part
        if not received:
            raise FailedError(CRASHED, f"its process did not begin ({' '.join(self.last_lines()[-1:])})")
        found: dict[str, Any] = json.loads(received)
        return found

    def _kill(self) -> int:
        """Exit code of the process, after it and all that it began are killed."""
        if self._process.returncode is None:
            if ON_LINUX:
                os.kill(self._process.pid, signal.SIGTERM)  # the supervisor ends the others before itself
                if not self._await(END_SECONDS):
                    for pid in usage.tree(self._process.pid)[1:]:
                        with suppress(ProcessLookupError, PermissionError):
                            os.kill(pid, signal.SIGKILL)
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

    def _look_at_usage(self, now: float) -> None:
        """Raises FailedError where its processes have too much memory, or are too many, or its files are too large."""
        if ON_LINUX:
            pids = usage.tree(self._process.pid)[self._ours :]
            most = self.limits.memory_mb * 2**20
            if (used := usage.resident(pids)) > most and (len(pids) == 1 or (used := usage.shared_out(pids)) > most):
                raise FailedError(MEMORY, f"{used / 2**20:.0f} MiB are more than {self.limits.memory_mb:g} MiB")
            if len(pids) > MOST_PROCESSES:
                raise FailedError(PROCESSES, f"{len(pids)} are more than {MOST_PROCESSES}")
        if now >= self._next_look_at_files:
            self._next_look_at_files = now + FOLDER_SECONDS
            size, count = usage.files(Path(self._folder), most := self.limits.disk_mb * 2**20)
            if size > most:
                raise FailedError(DISK, f"{size / 2**20:.0f} MiB of files are more than {self.limits.disk_mb:g} MiB")
            if count > usage.MOST_FILES:
                raise FailedError(DISK, f"more than {usage.MOST_FILES:,} files")


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

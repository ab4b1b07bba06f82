"""A detector in a process of its own, run after run: started when it is needed, and again after it was lost."""

from collections.abc import Callable, Collection
from types import TracebackType
from typing import Any

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.detectors.base import Context
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.alarms import CRASHED, OK, TIMEOUT, Alarms, Transcript
from trainwreck.evaluation.replay.profiles import nonfinite_losses
from trainwreck.evaluation.replay.sandbox.process import FailedError
from trainwreck.evaluation.replay.sandbox.remote import Remote, Request

GIVE_UP = 5  # runs in a row without an answer: the rest would take hours and give the same result


class Isolated:
    """begin: starts the process and loads the detector; raises InputError where it can't be, FailedError otherwise.

    Use it in a `with`, or call `close`: else the process lives until this one ends.
    """

    def __init__(self, begin: Callable[[], Remote]) -> None:
        self._begin = begin
        self._remote: Remote | None = None
        self._timeouts = 0
        self.about: dict[str, Any] = {}

    def __enter__(self) -> "Isolated":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def load(self) -> None:
        """Begin the process, so that a detector that can't be loaded fails here. Raises InputError, FailedError."""
        self._ready()

    def replay(
        self, trace: Trace, profile: str, context: Context | None, *, k: int, known: Collection[str] | None
    ) -> Alarms:
        """As `replay.replay`, which calls it. Nothing that the detector does is raised."""
        transcript, status, size = Transcript(nonfinite_losses(trace, profile)), OK, None
        stderr: tuple[str, ...] = ()
        if self._timeouts >= GIVE_UP:
            return transcript.alarms(trace.run_id, f"{TIMEOUT}: not tried, {GIVE_UP} runs in a row had timed out")
        try:
            size = self._ready().replay(Request(trace, profile, context, k, known), transcript)
            self._timeouts = 0
        except InputError as error:  # it was loaded once, and can't be again
            status = f"{CRASHED}: {error}"
        except FailedError as error:
            status = str(error)
            self._timeouts = self._timeouts + 1 if error.kind == TIMEOUT else 0
            remote, stderr = self._remote, error.printed
            if remote is not None:
                if not error.alive:
                    self.close()
                stderr = remote.last_lines()
        except BaseException:
            self.close()
            raise
        return transcript.alarms(trace.run_id, status, size, stderr)

    def close(self) -> None:
        """End the process; the next replay begins another."""
        if self._remote is not None:
            remote, self._remote = self._remote, None
            remote.close()

    def _ready(self) -> Remote:
        if self._remote is None:
            self._remote = self._begin()
            self.about = self._remote.about
        return self._remote

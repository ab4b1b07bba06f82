"""A detector in a process of its own, run after run: started when it is needed, and again after it was lost."""

from collections.abc import Callable, Collection
from time import monotonic
from types import TracebackType
from typing import Any

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.detectors.base import Context, Row, Verdict
from trainwreck.evaluation.errors import InputError, printable
from trainwreck.evaluation.replay.alarms import CONFINEMENT, CRASHED, GARBAGE, OK, TIMEOUT, Alarms, Transcript
from trainwreck.evaluation.replay.profiles import nonfinite_losses
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.process import OUT_OF_TIME, FailedError
from trainwreck.evaluation.replay.sandbox.remote import Remote, Request

GIVE_UP = 5  # runs in a row without an answer: the rest would take hours and give the same result


class Isolated:
    """begin: starts the process and loads the detector; raises InputError where it can't be, FailedError otherwise.

    limits: of its time in all. about: what it says of itself, and how it is confined.

    Use it in a `with`, or call `close`: else the process lives until this one ends.
    """

    def __init__(self, begin: Callable[[], Remote], limits: Limits) -> None:
        self._begin, self._limits = begin, limits
        self._remote: Remote | None = None
        self._timeouts: list[str] = []
        self._seconds = 60.0 * limits.minutes  # that are left
        self.about: dict[str, Any] = {}

    def __enter__(self) -> "Isolated":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def expect(self, runs: int, share: float = 1.0) -> None:
        """Time for so many runs, or a share of it, in place of what is left."""
        self._seconds = 60.0 * self._limits.minutes * max(1.0, runs / 1000) * share

    def load(self) -> None:
        """Begin the process, so that a detector that can't be loaded fails here. Raises InputError, FailedError."""
        self._ready()

    def replay(
        self, trace: Trace, profile: str, context: Context | None, *, k: int, known: Collection[str] | None
    ) -> Alarms:
        """As `replay.replay`, which calls it. Nothing that the detector does is raised."""
        transcript, status, size = Transcript(nonfinite_losses(trace, profile)), OK, None
        stderr: tuple[str, ...] = ()
        if len(self._timeouts) >= GIVE_UP or self._seconds <= 0.0:
            why = OUT_OF_TIME
            if self._seconds > 0.0:
                why = f"{GIVE_UP} runs in a row had timed out, the first: {self._timeouts[0]}"
            return transcript.alarms(trace.run_id, f"{TIMEOUT}: not tried, {why}")
        begun = monotonic()
        try:
            remote = self._ready()
            remote.until = begun + self._seconds
            size = remote.replay(Request(trace, profile, context, k, known), transcript)
            self._timeouts.clear()
        except InputError as error:  # it was loaded once, and can't be again
            status = f"{CRASHED}: {error}"
        except FailedError as error:
            status = str(error)
            if error.kind == TIMEOUT:
                self._timeouts.append(error.reason)
            else:
                self._timeouts.clear()
            failed, stderr = self._remote, error.printed
            if failed is not None:
                if not error.alive:
                    self.close()
                stderr = failed.last_lines()
        except Exception as error:  # what it answered was not foreseen, and it must not take other detectors with it
            status = f"{GARBAGE}: {printable(f'{type(error).__name__}: {error}')}"
            self.close()
        except BaseException:
            self.close()
            raise
        finally:
            self._seconds -= monotonic() - begun
        return transcript.alarms(trace.run_id, status, size, stderr)

    def begin(self, context: Context | None) -> None:
        """Begin a run that is under way. Raises InputError, FailedError."""
        self._ready().begin(context)

    def update(self, row: Row) -> Verdict:
        """Its verdict on a row of that run, with causes that need not be known. Raises FailedError, OutputError."""
        return self._ready().update(row)

    def close(self) -> None:
        """End the process; the next replay begins another."""
        if self._remote is not None:
            remote, self._remote = self._remote, None
            remote.close()

    def _ready(self) -> Remote:
        if self._remote is None:
            self._remote = self._begin()
            self.about = self._remote.about | {CONFINEMENT: self._remote.confinement}
        return self._remote

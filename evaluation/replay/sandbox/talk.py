"""What the harness can do with a detector in another process, whatever language they talk."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.detectors.base import Context
from trainwreck.evaluation.replay.alarms import Transcript
from trainwreck.evaluation.replay.sandbox.process import FailedError


class Asked(NamedTuple):
    """A replay. known: cause ids that may be named, None for any; the others as in `replay`."""

    trace: Trace
    profile: str
    context: Context | None
    k: int
    known: Collection[str] | None


class Talk(Protocol):
    """A process with one detector in it, ready for a run."""

    about: dict[str, Any]

    def replay(self, asked: Asked, heard: Transcript) -> int | None:
        """Show a run and write down what is said, as far as it comes. Raises FailedError.

        Bytes of the detector's state at the end; None where nobody can look.
        """
        ...

    def last_lines(self) -> tuple[str, ...]:
        """The end of what it printed in this run."""
        ...

    def close(self) -> None:
        """End the process."""
        ...


@contextmanager
def beginning(talk: Talk) -> Iterator[None]:
    """A block in which a process is loaded. Whatever ends it early, an interrupt too, ends the process."""
    try:
        yield
    except BaseException as error:
        talk.close()
        if isinstance(error, FailedError):
            error.printed = talk.last_lines()
        raise

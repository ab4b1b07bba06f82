"""A call as it travels to a worker, and how it ended there: the same words for every engine."""

import errno
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from time import monotonic
from typing import Any

from trainwreck.evaluation.errors import WorkerLostError
from trainwreck.scenarios.datasets.engines.limits import bound

Work = Callable[..., Any]
"""Called in a worker with a piece's arguments and, last, how many runs it may hold side by side."""


class End(Enum):
    """How a call ended."""

    DONE = "done"
    SHORT = "short"  # of memory
    LOST = "lost"  # its worker died, or was taken away
    RAISED = "raised"  # an exception: a bug, or a full disk


@dataclass(frozen=True)
class Call:
    """ticket: the dispatcher's number for it. memory: bytes that the worker may take, None for no bound."""

    ticket: int
    work: Work
    args: tuple[Any, ...]
    width: int
    memory: int | None = None


@dataclass(frozen=True)
class Ended:
    """value: what the work returned, or what it raised. seconds: that the work took in its worker. why: of a loss."""

    ticket: int
    end: End
    value: Any = None
    seconds: float = 0.0
    why: str = ""


def attempt(call: Call) -> Ended:
    """Make a call, in a worker; whatever comes of it is returned, so that every engine brings the same back."""
    began = monotonic()
    try:
        bound(call.memory)
        value = call.work(*call.args, call.width)
    except WorkerLostError as error:  # of a rank
        return Ended(call.ticket, End.LOST, why=str(error))
    except Exception as error:
        if is_shortage(error):
            return Ended(call.ticket, End.SHORT, why="was short of memory")
        error.add_note("".join(traceback.format_exception(error)))  # which does not travel by itself
        return Ended(call.ticket, End.RAISED, error)
    return Ended(call.ticket, End.DONE, value, monotonic() - began)


def is_shortage(error: BaseException) -> bool:
    """Whether an exception says that memory is short. PyTorch says so of the CPU's in words only."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return isinstance(error, RuntimeError) and ("can't allocate memory" in str(error) or "bad_alloc" in str(error))

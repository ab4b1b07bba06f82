"""How a replay ended: ok, or the kind of failure and what happened, in one line."""

from trainwreck.evaluation.detectors.base import OutputError

OK = "ok"
CRASHED = "crashed"  # raised, or its process ended
TIMEOUT = "timeout"  # no answer within the limit
MEMORY = "memory"  # more of it than the limit
OUTPUT = "output"  # more printed, or a longer answer, than the limit
GARBAGE = "garbage"  # an answer that is not a verdict

FAILURES_OF_A_DETECTOR = (CRASHED, TIMEOUT, MEMORY, OUTPUT, GARBAGE)


def raised(error: BaseException) -> tuple[str, str]:
    """Kind and line of what a detector raised.

    >>> raised(KeyError("loss"))
    ('crashed', "KeyError: 'loss'")
    """
    line = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, OutputError):
        return GARBAGE, " ".join(str(error).split())
    return (MEMORY if isinstance(error, MemoryError) else CRASHED), line

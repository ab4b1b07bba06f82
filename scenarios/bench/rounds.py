"""Subjects timed in turn, round after round, in one process; what can't run is a row that says so."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor

Work = Callable[[], Sequence[Tensor]]


@dataclass(frozen=True)
class Subject:
    """`build` sets up and returns the work, which returns what it computed.

    left_out: why it isn't tried at all; empty where it is.
    """

    name: str
    build: Callable[[], Work]
    left_out: str = ""


@dataclass(frozen=True)
class Taken:
    """Milliseconds by round; None where the subject did not run, and the note says why."""

    ms: np.ndarray | None
    note: str = ""


class Stopwatch(Protocol):
    """Makes a function that does the work once and gives milliseconds, and a note on how it does that."""

    def ready(self, work: Work) -> tuple[Callable[[], float], str]:
        """Warm up; what is slow the first time is done."""
        ...


def take(subjects: Sequence[Subject], stopwatch: Stopwatch, rounds: int, tolerance: float) -> dict[str, Taken]:
    """Every subject's times, by name. All are ready before the first round, and take turns in each.

    A subject whose numbers differ from those of the first that ran, by more than tolerance times the
    largest of them, is not timed: the speed of a wrong result says nothing.
    """
    taken: dict[str, Taken] = {}
    ready: dict[str, Callable[[], float]] = {}
    first: Sequence[Tensor] = ()
    for subject in subjects:
        taken[subject.name] = Taken(None, subject.left_out)
        if subject.left_out:
            continue
        try:
            work = subject.build()
            found = [x.detach() for x in work()]
            first = first or found
            wrong = differs(found, first, tolerance)
            if wrong:
                taken[subject.name] = Taken(None, wrong)
                continue
            ready[subject.name], note = stopwatch.ready(work)
        except Exception as error:  # whatever a peer raises: that this machine doesn't have it is a result
            taken[subject.name] = Taken(None, f"did not run: {reason(error)}")
        else:
            taken[subject.name] = Taken(np.zeros(0), note)
    times: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(rounds):
        for name, once in ready.items():
            times[name].append(once())
    return taken | {name: Taken(np.array(ms), taken[name].note) for name, ms in times.items()}


def differs(found: Sequence[Tensor], first: Sequence[Tensor], tolerance: float) -> str:
    """How numbers are off, in words; empty where they are not. Shapes may differ in axes of length 1."""
    for index, (x, right) in enumerate(zip(found, first, strict=True)):
        x, right = x.reshape(-1).float(), right.reshape(-1).float()
        gap, largest = (x - right).abs().max().item(), right.abs().max().item()
        if not gap <= tolerance * largest:  # also where it is NaN
            return f"wrong: result {index} is off by {gap:.2g}, the largest number is {largest:.2g}"
    return ""


def reason(error: Exception) -> str:
    """Kind and first line of an error, short enough for a table."""
    line = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {line[:120].replace('|', '/')}"


def cells(name: str, taken: dict[str, Taken], peers: Sequence[str], floor_ms: float) -> tuple[object, ...]:
    """Median and quartiles in ms, times the floor, and each peer's time over this one's; "" for what there isn't.

    A ratio is the median over rounds of the ratio within a round. The note comes last.
    """
    own = taken[name]
    if own.ms is None:
        return ("", "", "", *("" for _ in peers), own.note)
    low, middle, high = (float(x) for x in np.quantile(own.ms, (0.25, 0.5, 0.75)))
    ratios = [
        "" if peer not in taken or (theirs := taken[peer].ms) is None else float(np.median(theirs / own.ms))
        for peer in peers
    ]
    return (middle, f"{low:.3f} to {high:.3f}", middle / floor_ms, *ratios, own.note)

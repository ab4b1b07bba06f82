"""Replay: the rows of a recorded run through a detector, one at a time.

A replay needs nothing but a detector's class, a trace, a profile and a context, and gives plain
arrays back, so that it can run in this process or in another one.
"""

import copy
import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeGuard

from trainwreck.evaluation.constants import LOG_EVERY
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.detectors.base import Context, Detector, normalise
from trainwreck.evaluation.detectors.registry import AllowedCauses, is_builtin, known_detector, load_detector
from trainwreck.evaluation.errors import printable
from trainwreck.evaluation.replay.alarms import OK, Alarms, Transcript, raised, rising_edges
from trainwreck.evaluation.replay.profiles import nonfinite_losses, observe
from trainwreck.evaluation.replay.rows import rows
from trainwreck.evaluation.replay.state_size import state_bytes

if TYPE_CHECKING:
    from trainwreck.evaluation.replay.sandbox.isolated import Isolated

__all__ = ["OK", "Alarms", "load_detector", "replay", "replay_order", "rising_edges", "rows"]
SHORTCUTS = ("base_alone", "first_rows")  # entries that the harness makes, as the oracles


def replay_order(run_ids: Iterable[str], draw: bytes = b"") -> list[str]:
    """The order in which runs are shown to a detector: by a hash of their names, which no label has a part in.

    Plans, and so tables of runs, go by role and seed: a class that counts its runs could read labels off the count.
    draw: bytes that are drawn for each replay, since the hash alone is the same for whoever has the names.
    """
    return sorted(run_ids, key=lambda run_id: hashlib.sha256(draw + str(run_id).encode()).digest())


def replay(
    detector: "Detector | Callable[[], Detector] | Isolated",
    trace: Trace,
    profile: str = "full",
    context: Context | None = None,
    *,
    k: int = LOG_EVERY,
    known: Collection[str] | None = None,
) -> Alarms:
    """Show a run to a detector and record what it says.

    detector: a class or another factory, called for this run; or an object, copied for it, so that
    no state passes from run to run; or one in a process of its own. context: the declared
    configuration, None on the blind track. known: cause ids it may name; by default those of the
    built-in detectors. Whatever the detector does ends this replay only and shows in `status`.
    Raises InputError for a wrong profile.
    """
    observed = observe(rows(trace), profile, k=k, run_id=trace.run_id, objective=trace.objective)
    allowed = AllowedCauses() if known is None else known
    if is_isolated(detector):
        return detector.replay(trace, profile, context, k=k, known=allowed)
    transcript, status, size = Transcript(nonfinite_losses(trace, profile)), OK, None
    # A detector is foreign code: whatever it raises, sys.exit included, is this run's result and
    # must not stop the other runs. KeyboardInterrupt is the user's and goes through.
    try:
        subject = _fresh(detector)
        threshold = getattr(subject, "default_threshold", None)
        subject.reset(copy.deepcopy(context))
        for row in observed:
            step = row["step"]
            start = perf_counter_ns()
            output = subject.update(row)
            spent = perf_counter_ns() - start
            transcript.add(step, normalise(output, threshold=threshold, known=allowed), spent)
        size = state_bytes(subject)
    except (Exception, SystemExit) as error:
        status = ": ".join(raised(error))
    return transcript.alarms(trace.run_id, status, size)


def is_isolated(detector: object) -> "TypeGuard[Isolated]":
    """Whether a detector has a process of its own."""
    if isinstance(detector, (type, Detector)):
        return False  # and the modules of the sandbox are not needed
    from trainwreck.evaluation.replay.sandbox.isolated import Isolated

    return isinstance(detector, Isolated)


def about(detector: object) -> dict[str, Any]:
    """What a detector says of itself: rule, source, blind spots, causes, signals, where it says so."""
    if is_isolated(detector):
        return detector.about
    named = ("rule", "source", "blind_spots", "causes", "signals")
    return {key: value for key in named if (value := getattr(detector, key, None))}


def detector_name(detector: object) -> str:
    """What a detector is called: of a file or a command without its folders, which are private.

    A class that calls itself as a built-in entry which it is not has its own name behind.
    """
    if isinstance(detector, str):
        if is_builtin(detector):
            return detector
        from trainwreck.evaluation.replay.sandbox.command import PREFIX, shown

        return printable(shown(detector) if detector.startswith(PREFIX) else Path(detector).name)
    kind = detector if isinstance(detector, type) else type(detector)
    from trainwreck.evaluation.replay.oracles import ORACLES

    name = printable(str(getattr(detector, "name", "") or kind.__name__))
    known = known_detector(name)
    is_taken = name in (*SHORTCUTS, *ORACLES) or (known is not None and known is not kind)
    return f"{name} ({printable(kind.__name__)})" if is_taken else name


def distinct(names: Sequence[str]) -> list[str]:
    """The names, those that were there before with a number.

    >>> distinct(["m.py:D", "zclip", "m.py:D"])
    ['m.py:D', 'zclip', 'm.py:D (2)']
    """
    found: list[str] = []
    for name in names:
        numbered = (f"{name} ({number})" for number in count(2))
        found.append(name if name not in found else next(one for one in numbered if one not in (*found, *names)))
    return found


def _fresh(detector: Any) -> Detector:
    is_object = not isinstance(detector, type) and hasattr(detector, "update")
    made: Detector = copy.deepcopy(detector) if is_object else detector()
    return made

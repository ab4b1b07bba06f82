"""Replay: the rows of a recorded run through a detector, one at a time.

A replay needs nothing but a detector's class, a trace, a profile and a context, and gives plain
arrays back, so that it can run in this process or in another one.
"""

import copy
import hashlib
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np

from trainwreck.evaluation.profiles import observe
from trainwreck.evaluation.protocol import Context, Detector, normalise
from trainwreck.evaluation.registry import builtin_causes, load_detector
from trainwreck.evaluation.rows import rows
from trainwreck.evaluation.specification import LOG_EVERY, REFRACTORY
from trainwreck.evaluation.trace import Trace

__all__ = ["Alarms", "load_detector", "replay", "replay_order", "rising_edges", "rows"]

OK = "ok"


@dataclass(frozen=True)
class Alarms:
    """What a detector said of one run.

    steps, scores, alarm: [R], one entry a row it saw (fewer where it crashed). edges: steps of new
    alarms under the monitor protocol. first_alarm: step of the first alarm, which ends the run
    under the stop protocol; None without one. causes: what it named at that alarm. status: "ok",
    or "crashed: " and why. update_us: mean time of an update, microseconds. state_bytes: size of
    its attributes at the end, containers and arrays included.
    """

    run_id: str
    steps: np.ndarray
    scores: np.ndarray
    alarm: np.ndarray
    edges: np.ndarray
    first_alarm: int | None
    causes: tuple[str, ...]
    status: str
    update_us: float
    state_bytes: int

    @property
    def crashed(self) -> bool:
        return self.status != OK

    @property
    def rows(self) -> int:
        """Rows that it judged."""
        return len(self.steps)

    @property
    def last_judged(self) -> int:
        """Step of the last row that it judged, -1 without one."""
        return int(self.steps[-1]) if len(self.steps) else -1

    def to_dict(self, *, scores: bool = False) -> dict[str, Any]:
        """JSON-safe; with `scores` the score of every row as well."""
        facts: dict[str, Any] = {
            "run_id": self.run_id,
            "first_alarm": self.first_alarm,
            "edges": self.edges.tolist(),
            "causes": list(self.causes),
            "status": self.status,
            "rows": self.rows,
            "update_us": self.update_us,
            "state_bytes": self.state_bytes,
        }
        if scores:
            facts |= {"steps": self.steps.tolist(), "scores": self.scores.tolist()}
        return facts


def replay_order(run_ids: Iterable[str]) -> list[str]:
    """The order in which runs are shown to a detector: by a hash of their names, so that it tells nothing.

    Plans, and so tables of runs, go by role and seed: a class that counts its runs could read labels off the count.
    """
    return sorted(run_ids, key=lambda run_id: hashlib.sha256(str(run_id).encode()).digest())


def rising_edges(steps: np.ndarray, alarm: np.ndarray, refractory: int = REFRACTORY) -> np.ndarray:
    """Steps at which an alarm is new: off at the row before, and none in the `refractory` steps before.

    steps: [R], ascending. alarm: [R], bool. A latched alarm is one edge, and so are repeats within
    the refractory period after it.
    """
    alarm = np.asarray(alarm, bool)
    rising = np.asarray(steps)[alarm & ~np.concatenate([[False], alarm[:-1]])]
    kept: list[int] = []
    for step in rising.tolist():
        if not kept or step - kept[-1] >= refractory:
            kept.append(step)
    return np.array(kept, dtype=np.int64)


def replay(
    detector: Detector | Callable[[], Detector],
    trace: Trace,
    profile: str = "full",
    context: Context | None = None,
    *,
    k: int = LOG_EVERY,
    known: Collection[str] | None = None,
) -> Alarms:
    """Show a run to a detector and record what it says.

    detector: a class or another factory, called for this run; or an object, copied for it, so that
    no state passes from run to run. context: the declared configuration, None on the blind track.
    known: cause ids it may name; by default those of the built-in detectors. An exception in the
    detector ends this replay only and shows in `status`. Raises InputError for a wrong profile.
    """
    observed = observe(rows(trace), profile, k=k)
    allowed = builtin_causes() if known is None else known
    steps: list[int] = []
    scores: list[float] = []
    alarm: list[bool] = []
    causes: tuple[str, ...] | None = None
    status, spent, state = OK, 0, 0
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
            spent += perf_counter_ns() - start
            verdict = normalise(output, threshold=threshold, known=allowed)
            if verdict.alarm and causes is None:
                causes = verdict.causes
            steps.append(step)
            scores.append(verdict.score)
            alarm.append(verdict.alarm)
        state = _state_bytes(subject)
    except (Exception, SystemExit) as error:
        status = "crashed: " + " ".join(f"{type(error).__name__}: {error}".split())
    seen, raised = np.array(steps, dtype=np.int64), np.array(alarm, dtype=bool)
    return Alarms(
        run_id=trace.run_id,
        steps=seen,
        scores=np.array(scores, dtype=np.float64),
        alarm=raised,
        edges=rising_edges(seen, raised),
        first_alarm=int(seen[raised.argmax()]) if raised.any() else None,
        causes=causes or (),
        status=status,
        update_us=spent / 1e3 / max(1, len(steps)),
        state_bytes=state,
    )


def _fresh(detector: Detector | Callable[[], Detector]) -> Detector:
    is_object = not isinstance(detector, type) and hasattr(detector, "update")
    return copy.deepcopy(detector) if is_object else detector()  # type: ignore[operator, return-value]


def _state_bytes(subject: object) -> int:
    """Bytes of an object's attributes, through the built-in containers and arrays; shared parts once."""
    total, seen, queue = 0, set(), deque(getattr(subject, "__dict__", {}).values())
    while queue:
        value = queue.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        total += sys.getsizeof(value)
        if isinstance(value, Mapping):
            queue.extend([*value.keys(), *value.values()])
        elif isinstance(value, (list, tuple, set, frozenset, deque)):
            queue.extend(value)
        elif hasattr(value, "__dict__") and not callable(value):
            queue.extend(value.__dict__.values())
    return total

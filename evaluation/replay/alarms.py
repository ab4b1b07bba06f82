"""Alarms of a detector on a run."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainwreck.evaluation.constants import REFRACTORY
from trainwreck.evaluation.detectors.base import LARGEST_SCORE, OutputError, Verdict
from trainwreck.evaluation.errors import printable, printable_error
from trainwreck.evaluation.short_forms import AsText

# How a replay ended.
OK = "ok"
CRASHED = "crashed"  # raised, or its process ended
TIMEOUT = "timeout"  # no answer within the limit
MEMORY = "memory"  # more of it than the limit
DISK = "disk"  # more files than the limit
PROCESSES = "processes"  # more of them than the limit
OUTPUT = "output"  # more printed, or a longer answer, than the limit
GARBAGE = "garbage"  # an answer that is not a verdict

CONFINEMENT = "confinement"  # of what is said of a detector: layer to True or a version, or why it does not hold

FAILURES_OF_A_DETECTOR = (CRASHED, TIMEOUT, MEMORY, DISK, PROCESSES, OUTPUT, GARBAGE)


@dataclass(frozen=True, repr=False)
class Alarms(AsText):
    """Verdicts of a detector on one run.

    steps, scores, alarm: [R], one entry a row it saw (fewer where it failed). edges: steps of new
    alarms under the monitor protocol. first_alarm: step of the first alarm, which ends the run
    under the stop protocol; None without one. causes: what it named at that alarm. status: "ok",
    or a kind of `FAILURES_OF_A_DETECTOR`, a colon and what happened. update_us: mean time of
    an update, microseconds. state_bytes: size of its attributes at the end, containers and arrays
    included; None where it can't be measured (a command, or a failure). stderr: the last lines that a
    detector in a process of its own printed, where it failed. answers: steps at which the largest score so far rose and
    the causes that it had named last by then were others than before, with those causes; so that a
    diagnosis can be had at any threshold.
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
    state_bytes: int | None
    stderr: tuple[str, ...] = ()
    answers: tuple[tuple[int, tuple[str, ...]], ...] = ()

    def __repr__(self) -> str:
        found = f"first alarm at step {self.first_alarm}" if self.first_alarm is not None else "no alarm"
        more = f", {len(self.edges)} in all" if len(self.edges) > 1 else ""
        named = f"; causes {', '.join(self.causes)}" if self.causes else ""
        return f"run {self.run_id}: {found}{more} in {self.rows} rows{named}; {self.status}"

    @property
    def outcome(self) -> str:
        """The kind of status, without what happened."""
        return self.status.partition(":")[0]

    @property
    def crashed(self) -> bool:
        """Whether it failed, in whatever way."""
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
        if self.stderr:
            facts["stderr"] = list(self.stderr)
        if scores:
            facts |= {"steps": self.steps.tolist(), "scores": self.scores.tolist()}
        return facts


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


class Transcript:
    """Verdicts as they come, row by row.

    The whole run is replayed, whatever the alarms at the published default: a threshold that is frozen on
    calibration runs needs the score of every row. The stop protocol uses the first alarm, the monitor
    protocol the edges, so that one replay serves both.

    nonfinite: steps whose rows show a loss that is not finite. A score without bound there outranks one elsewhere, as
    at a gradient that overflows in fp16 and is skipped: it is kept as infinity.
    """

    def __init__(self, nonfinite: Collection[int] = ()) -> None:
        self.nonfinite = nonfinite
        self.answers: list[tuple[int, tuple[str, ...]]] = []
        self._named: tuple[str, ...] = ()
        self._top = -math.inf
        self.steps: list[int] = []
        self.scores: list[float] = []
        self.alarm: list[bool] = []
        self.causes: tuple[str, ...] | None = None
        self.spent_ns = 0

    def add(self, step: int, verdict: Verdict, spent_ns: int) -> None:
        """Add the verdict on the row of a step, and the time that it took."""
        self.spent_ns += spent_ns
        if verdict.alarm and self.causes is None:
            self.causes = verdict.causes
        score, self._named = verdict.score, verdict.causes or self._named
        if score >= LARGEST_SCORE and step in self.nonfinite:
            score = math.inf
        if score > self._top:
            self._top = score
            if self._named != (self.answers[-1][1] if self.answers else ()):
                self.answers.append((step, self._named))
        self.steps.append(step)
        self.scores.append(score)
        self.alarm.append(verdict.alarm)

    def alarms(self, run_id: str, status: str, state_bytes: int | None = None, stderr: tuple[str, ...] = ()) -> Alarms:
        """All verdicts, with how the replay ended."""
        steps, raised = np.array(self.steps, dtype=np.int64), np.array(self.alarm, dtype=bool)
        return Alarms(
            run_id=run_id,
            steps=steps,
            scores=np.array(self.scores, dtype=np.float64),
            alarm=raised,
            edges=rising_edges(steps, raised),
            first_alarm=int(steps[raised.argmax()]) if raised.any() else None,
            causes=self.causes or (),
            status=status,
            update_us=self.spent_ns / 1e3 / max(1, len(steps)),
            state_bytes=state_bytes,
            stderr=stderr,
            answers=tuple(self.answers),
        )


def labelled_alarms(run_id: str, last_step: int, first: int | None, causes: tuple[str, ...] = ()) -> Alarms:
    """One alarm at step `first` (None: no alarm) of a run of steps 0 to `last_step`; the score is 1 there, else 0."""
    steps = np.arange(last_step + 1)
    alarm = np.zeros(last_step + 1, dtype=bool) if first is None else steps == first
    return Alarms(
        run_id=run_id,
        steps=steps,
        scores=alarm.astype(np.float64),
        alarm=alarm,
        edges=steps[alarm],
        first_alarm=first,
        causes=causes if first is not None else (),
        status=OK,
        update_us=0.0,
        state_bytes=0,
        answers=((first, causes),) if first is not None and causes else (),
    )


def confined_text(layers: Mapping[str, object] | None) -> str:
    """Which layers of confinement held and which did not; "" for a detector in the harness's process.

    >>> confined_text({"landlock": 7, "seccomp": True, "namespaces": "Operation not permitted"})
    'landlock 7, seccomp; without namespaces (Operation not permitted)'
    """
    if not isinstance(layers, Mapping):
        return ""
    held = [
        name if value is True else f"{name} {value}" for name, value in layers.items() if not isinstance(value, str)
    ]
    not_held = [printable(f"{name} ({value})", 80) for name, value in layers.items() if isinstance(value, str)]
    parts = [", ".join(held) or "not at all", *([f"without {', '.join(not_held)}"] if not_held else [])]
    return "; ".join(parts)


def raised(error: BaseException) -> tuple[str, str]:
    """Kind and line of what a detector raised.

    >>> raised(KeyError("loss"))
    ('crashed', "KeyError: 'loss'")
    """
    if isinstance(error, OutputError):
        return GARBAGE, printable(str(error))
    return (MEMORY if isinstance(error, MemoryError) else CRASHED), printable_error(error)

"""Alarms of a detector on many runs with their labels: the input of every metric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from trainwreck.evaluation.constants import LOG_FAULTS
from trainwreck.evaluation.dataset.schema import FAILURES, LOGGING
from trainwreck.evaluation.replay.replay import Alarms
from trainwreck.evaluation.scoring.run_labels import RunLabels


@dataclass(frozen=True, repr=False)
class Outcomes(RunLabels):
    """Labels with the alarms of one detector. first (a) is infinite without an alarm.

    edges, named, answers, steps and scores hold a sequence a run: named the causes at the first alarm, answers the
    causes by the step from which they stood (`Alarms.answers`).

    A failing run that crashed its detector is a miss whatever it gave before the crash, unless it
    was alarmed before the onset. Alarms on other runs before a crash count all the same. Steps after
    a crash were not judged and do not count as healthy steps without an alarm.
    """

    first: np.ndarray
    crashed: np.ndarray  # bool
    judged: np.ndarray  # step of the last row judged before a crash; infinite without one
    edges: tuple[np.ndarray, ...]
    named: tuple[tuple[str, ...], ...]
    answers: tuple[tuple[tuple[int, tuple[str, ...]], ...], ...]
    steps: tuple[np.ndarray, ...]
    scores: tuple[np.ndarray, ...]

    def named_at(self, first: np.ndarray) -> list[tuple[str, ...]]:
        """The causes that stood when each run's score first exceeded a threshold. first: [N], inf where it did not."""
        found: list[tuple[str, ...]] = [()] * len(first)
        for i in np.flatnonzero(np.isfinite(first)).tolist():
            step = first[i]
            for since, causes in self.answers[i]:
                if since <= step:
                    found[i] = causes
        return found


def is_excused(family: str, causes: Sequence[str]) -> bool:
    """Whether an alarm says what is wrong with a run that is healthy and logged wrongly: the log is named first."""
    return family == LOGGING and bool(causes) and causes[0] in (*LOG_FAULTS, LOGGING)


def excused(one: Alarms) -> Alarms:
    """Alarms on such a run, without those that name the log: at no threshold is it stopped while that answer stands."""
    if is_excused(LOGGING, one.causes):
        one = replace(one, first_alarm=None, edges=one.edges[:0], causes=())
    scores = one.scores.copy()
    for place, (since, causes) in enumerate(one.answers, start=1):
        until = one.answers[place][0] if place < len(one.answers) else np.inf
        if is_excused(LOGGING, causes):
            scores[(since <= one.steps) & (one.steps < until)] = -np.inf
    return replace(one, scores=scores)


def outcomes(labels: RunLabels, alarms: Mapping[str, Alarms]) -> Outcomes:
    """Join labels with a detector's alarms, by run_id. On wrong logs those that name the log are left out."""
    given = [alarms[run_id] for run_id in labels.run_id.tolist()]
    given = [
        excused(one) if wrong else one
        for one, wrong in zip(given, (labels.look_alike & (labels.family == LOGGING)).tolist(), strict=True)
    ]
    first = np.array([np.inf if one.first_alarm is None else one.first_alarm for one in given], dtype=np.float64)
    crashed = np.array([one.crashed for one in given], dtype=bool)
    missed = crashed & np.isin(labels.kind, FAILURES) & (first >= labels.onset)
    return Outcomes(
        **{field.name: getattr(labels, field.name) for field in fields(labels)},
        first=np.where(missed, np.inf, first),
        crashed=crashed,
        judged=np.array([one.last_judged if one.crashed else np.inf for one in given], dtype=np.float64),
        edges=tuple(one.edges for one in given),
        named=tuple(one.causes for one in given),
        answers=tuple(one.answers for one in given),
        steps=tuple(one.steps for one in given),
        scores=tuple(one.scores for one in given),
    )

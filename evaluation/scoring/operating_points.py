"""Everything that depends on where a detector's threshold is, measured at one threshold after the other."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from trainwreck.evaluation.constants import BUDGETS, COSTS, LARGEST_STOPPED, PREVALENCES, TOP
from trainwreck.evaluation.dataset.schema import FAILURES
from trainwreck.evaluation.scoring.equivalence_sets import Sets
from trainwreck.evaluation.scoring.metrics import delay, diagnosis, skill
from trainwreck.evaluation.scoring.metrics.bootstrap import ANY, RATE, SHARE, Estimate
from trainwreck.evaluation.scoring.metrics.false_alarms import Share
from trainwreck.evaluation.scoring.metrics.recall import firsts_above, in_time, peak
from trainwreck.evaluation.scoring.metrics.thresholds import Peaks, Randomised, over_budgets, within_budget
from trainwreck.evaluation.scoring.outcomes import Outcomes
from trainwreck.evaluation.scoring.reference import Baseline, skill_runs

DEFAULT = "default"  # the detector's own alarm
INSTANTS = 25  # at which the share detected by then is given with its interval


class Recall(NamedTuple):
    """In-time recall at one operating point, with the shares of measured runs that it stops.

    threshold: None at the published default, where the detector's own alarm counts. stopped, stopped_look_alike: of
    healthy and of look-alike runs. stopped_mixed: of both, look-alikes at the share that a budget counts.
    of_visible: recall over the share of failing runs that the profile shows in time; above 1 where a detector guesses.
    """

    value: float
    low: float
    high: float
    threshold: Randomised | None
    stopped: Share
    stopped_look_alike: Share
    stopped_mixed: Estimate
    of_visible: Estimate


@dataclass(frozen=True)
class Point:
    """The scores at one operating point; all are expectations where its threshold is randomised.

    delay: from_onset and from_visible, each with the restricted mean in steps and as a share of the horizon, the share
    detected by some steps, and the incidence of each event. diagnosis: level to k to macro average, chance and majority
    prior, and a confusion matrix. skill: cost profile to prevalence to W*. Intervals of diagnosis take the threshold as
    given; all others have its uncertainty.
    """

    recall: Recall
    lead: Estimate
    delay: dict[str, Any]
    diagnosis: dict[str, Any]
    skill: dict[str, dict[float, Estimate]]


class Area(NamedTuple):
    """What needs no threshold: mean recall and mean lead over shares stopped from 0 to 10 %, look-alikes among them.

    recall: area under the curve of in-time recall, over the largest that it can be. lead: the volume under its surface,
    where an alarm has to come within a share of the time to act, from none to all of it: the mean over that share is the
    lead (compare VUS, Paparrizos et al. 2022). Thresholds are those of the measured runs, so that no number here
    can be had in use.
    """

    recall: Estimate
    lead: Estimate


def thresholds(calibration: Outcomes, frame: Baseline) -> dict[str, Randomised | None]:
    """Operating point to its threshold: None at the detector's own alarm."""
    on = Peaks(peaks(calibration), frame.calibration_weights, frame.calibration_draws, calibration.crashed)
    return {DEFAULT: None} | {str(budget): within_budget(on, budget) for budget in BUDGETS}


def area(one: Outcomes, frame: Baseline) -> Area:
    """Threshold-free scores of the measured runs."""
    negative = one.select(one.negative)
    on = Peaks(peaks(negative), frame.negative_weights[one.negative], frame.negative_draws, negative.crashed)
    threshold = over_budgets(on, LARGEST_STOPPED)
    at = At(one, frame, threshold)
    return Area(at.mean(at.found, one.failing), at.mean(at.leads, one.failing))


def measured_at(one: Outcomes, frame: Baseline, threshold: Randomised | None, sets: Sets) -> Point:
    """Every score at one threshold. one: outcomes of the measured runs."""
    at = At(one, frame, threshold)
    recall = Recall(
        *at.mean(at.found, one.failing),
        None if threshold is None else threshold.exact(),
        at.share(at.alarmed, one.healthy),
        at.share(at.alarmed, one.look_alike),
        at.mean(at.alarmed, frame.negative_weights),
        at.ratio(at.found, one.visible_in_time, RATE),
    )
    return Point(
        recall=recall,
        lead=at.mean(at.leads, one.failing),
        delay={
            "from_onset": _delay(at, one.failing, one.onset),
            "from_visible": _delay(at, one.visible_in_time, one.visible),
        },
        diagnosis=_diagnosis(at, sets),
        skill={cost: _skill(at, cost) for cost in COSTS},
    )


class At:
    """First alarms at the levels of a threshold. firsts: [T, N], first alarm of each run at each level.

    A threshold without its resamples (`Randomised.exact`) is taken as given by every interval.

    found, leads, alarmed: [T, N], in time, the share of the time to act that is left, any alarm.
    """

    def __init__(self, one: Outcomes, frame: Baseline, threshold: Randomised | None) -> None:
        self.one, self.frame, self.threshold = one, frame, threshold
        if threshold is None:
            self.firsts = one.first[None]
            self.chances, self.samples = np.ones(1), np.ones((1, 1))
        else:
            first = firsts_above(one.steps, one.scores, threshold.levels)
            # A crash under the fault is a miss, whatever the score before it.
            missed = one.crashed & np.isin(one.kind, FAILURES) & (first >= one.onset)
            self.firsts = np.where(missed, np.inf, first)
            self.chances = threshold.chances
            self.samples = threshold.samples if len(threshold.samples) else threshold.chances[None]

    @cached_property
    def found(self) -> np.ndarray:
        return in_time(self.firsts, self.one.onset, self.one.no_return) & self.one.failing

    @cached_property
    def leads(self) -> np.ndarray:
        return np.array([delay.lead(f, self.one.onset, self.one.visible, self.one.no_return) for f in self.firsts])

    @cached_property
    def alarmed(self) -> np.ndarray:
        return np.isfinite(self.firsts)

    def expected(self, values: np.ndarray) -> np.ndarray:
        """Expectation of each run's value over the levels. values: [T, N]. Returns [N]"""
        return np.asarray(self.chances @ values)

    def mean(self, values: np.ndarray, weights: np.ndarray, bounds: tuple[float, float] = SHARE) -> Estimate:
        """Expected mean of values [T, N] over the runs by weights [N], or under a mask."""
        return self.ratio(values * weights, weights, bounds)

    def ratio(self, above: np.ndarray, below: np.ndarray, bounds: tuple[float, float]) -> Estimate:
        """Expected sum of `above` [T, N] over the sum of `below` [N]."""
        return self.frame.bootstrap.ratio(above.T, below, bounds, (self.chances, self.samples))

    def share(self, values: np.ndarray, mask: np.ndarray) -> Share:
        """Expected share of the runs under mask [N] for which values [T, N] hold."""
        events = float(self.expected(values)[mask].sum())
        return Share(*self.mean(values, mask), events, int(mask.sum()))


def peaks(one: Outcomes) -> np.ndarray:
    """Largest score of each run; infinite for one on which the detector failed. [N]"""
    return np.where(one.crashed, np.inf, peak(one.scores))


def _delay(at: At, mask: np.ndarray, origin: np.ndarray) -> dict[str, Any]:
    """From an origin that is known for the runs under mask. [N], [N]"""
    one, bootstrap = at.one, at.frame.bootstrap
    onset, no_return, start = one.onset[mask], one.no_return[mask], origin[mask]
    pairs = [delay.events(first[mask], onset, no_return, start) for first in at.firsts]
    time, event = (np.array([pair[i] for pair in pairs]).reshape(len(pairs), -1) for i in range(2))
    weights = np.broadcast_to(at.chances[:, None], time.shape)
    used = at.chances != 0
    flat = time[used].ravel(), event[used].ravel()
    incidence = {
        kind.name.lower(): dict(
            zip(("steps", "share"), delay.cumulative_incidence(*flat, kind, weights[used].ravel()), strict=True)
        )
        for kind in delay.Event
    }
    steps, share = np.zeros((2, len(at.firsts), len(one)))
    for i, first in enumerate(at.firsts):
        steps[i, mask], share[i, mask] = delay.restricted_delay(first[mask], onset, no_return, start)
    instants = np.unique(np.linspace(0.0, time[used].max(initial=0.0), INSTANTS).round())
    by = []
    for instant in instants.tolist():
        detected = np.zeros(len(one))
        detected[mask] = at.chances @ ((event == delay.Event.DETECTED) & (time <= instant))
        by.append(bootstrap.mean(detected, mask))
    return {
        "detected_by": {"steps": instants} | {name: [getattr(e, name) for e in by] for name in Estimate._fields},
        "restricted_mean_steps": at.mean(steps, mask, ANY),
        "restricted_mean_share": at.mean(share, mask),
        "incidence": incidence,
    }


def _diagnosis(at: At, sets: Sets) -> dict[str, Any]:
    one, frame, failing = at.one, at.frame, at.one.failing
    used = np.flatnonzero(at.chances)
    named = {i: one.named if at.threshold is None else one.named_at(at.firsts[i]) for i in used.tolist()}
    families = {i: diagnosis.by_family(answers, frame.family_of) for i, answers in named.items()}
    no_sets: Sets = {}
    facts: dict[str, Any] = {}
    for level, truth, answers, unseen, within in (
        ("cause", one.cause, named, frame.unseen, no_sets),
        ("family", one.family, families, frozenset[str](), no_sets),
        ("cause_within_set", one.cause, named, frame.unseen, sets),
    ):
        facts[level] = {}
        for k in TOP:
            right = sum(
                (
                    at.chances[i] * diagnosis.diagnosed(at.found[i], truth, given, k, unseen, within)
                    for i, given in answers.items()
                ),
                np.zeros(len(one)),
            )
            facts[level][str(k)] = {
                "macro": _macro(at, right, truth),
                "chance": diagnosis.chance(truth[failing], k, within),
                "majority_prior": diagnosis.majority_prior(truth[failing], k),
            }
        if level != "cause_within_set":
            facts[level]["confusion"] = diagnosis.confusion(
                np.concatenate([at.found[i][failing] for i in answers] or [np.zeros(0, dtype=bool)]),
                np.concatenate([truth[failing] for _ in answers] or [truth[:0]]),
                [answer for given in answers.values() for answer, is_one in zip(given, failing, strict=True) if is_one],
                np.repeat(at.chances[used], failing.sum()),
            )
    return facts


def _macro(at: At, right: np.ndarray, truth: np.ndarray) -> Estimate:
    """Mean over causes of the mean over each cause's failing runs. right: [N]."""
    failing = at.one.failing
    if not failing.any():
        return Estimate(math.nan, math.nan, math.nan)
    _, code, counts = np.unique(truth[failing], return_inverse=True, return_counts=True)
    weights = np.zeros(len(failing))
    weights[failing] = 1.0 / counts[code]
    return at.frame.bootstrap.ratio(right * weights, weights)


def _skill(at: At, cost: str) -> dict[float, Estimate]:
    one, frame = at.one, at.frame
    failing, negative = one.failing, one.negative
    if not (failing.any() and negative.any()) or np.isnan(at.chances).any():
        return dict.fromkeys(PREVALENCES, Estimate(math.nan, math.nan, math.nan))
    labels = skill_runs(one)
    gain, loss = np.zeros((2, len(at.firsts), len(one)))
    for i, first in enumerate(at.firsts):
        gain[i, failing] = skill.gains(first[failing], labels, cost)
        loss[i, negative] = skill.losses(first[negative], labels.healthy_last, cost)
    gains, losses = ((part * at.samples).sum(axis=1) for part in frame.expectations(gain.T, loss.T))
    found = {}
    for prevalence in PREVALENCES:
        blind = frame.blind[cost, prevalence]
        means = at.expected(gain)[failing].mean(), at.expected(loss)[negative].mean()
        value = skill.utility(*means, prevalence)
        samples = skill.skill(np.asarray(skill.utility(gains, losses, prevalence)), blind.samples, blind.ceilings)
        exact = float(skill.skill(np.array([value]), np.array([blind.value]), np.array([blind.ceiling]))[0])
        found[prevalence] = Estimate(exact, *frame.bootstrap.interval(exact, samples, failing | negative))
    return found

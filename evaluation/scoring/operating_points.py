"""Everything that depends on where a detector's threshold is, measured at one threshold after the other."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from trainwreck.evaluation.constants import BUDGETS, COSTS, LARGEST_STOPPED, PREVALENCES, TOP
from trainwreck.evaluation.dataset.schema import FAILURES
from trainwreck.evaluation.intervals import interval_text
from trainwreck.evaluation.scoring.metrics import delay, diagnosis, skill
from trainwreck.evaluation.scoring.metrics.bootstrap import NOTHING, RATE, SHARE, Estimate, Ratio, Share
from trainwreck.evaluation.scoring.metrics.recall import firsts_above, in_time, peak
from trainwreck.evaluation.scoring.metrics.thresholds import Peaks, Randomised, over_budgets, within_budget
from trainwreck.evaluation.scoring.outcomes import Outcomes
from trainwreck.evaluation.scoring.reference import Baseline, skill_runs
from trainwreck.evaluation.short_forms import AsText

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

    def __repr__(self) -> str:
        stopped, alike = interval_text(*self.stopped[:3]), interval_text(*self.stopped_look_alike[:3])
        return f"in-time recall {interval_text(*self[:3])}, healthy runs stopped {stopped}, look-alikes stopped {alike}"


@dataclass(frozen=True, repr=False)
class Point(AsText):
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

    def __repr__(self) -> str:
        return f"{self.recall}, lead {interval_text(*self.lead)}"


class Area(NamedTuple):
    """What needs no threshold: mean recall and mean lead over shares stopped from 0 to 10 %, look-alikes among them.

    recall: area under the curve of in-time recall, over the largest that it can be. lead: the volume under its surface,
    where an alarm has to come within a share of the time to act, from none to all of it: the mean over that share is
    the lead (compare VUS, Paparrizos et al. 2022). Thresholds are those of the measured runs, so that no number here
    can be had in use.
    """

    recall: Estimate
    lead: Estimate


def thresholds(calibration: Outcomes, frame: Baseline) -> dict[str, Randomised | None]:
    """Operating point to its threshold: None at the detector's own alarm."""
    on = _peaks(calibration, frame.calibration_weights, frame.calibration_draws, frame.calibration_shares)
    return {DEFAULT: None} | {str(budget): within_budget(on, budget) for budget in BUDGETS}


def area(one: Outcomes, frame: Baseline) -> Area:
    """Threshold-free scores of the measured runs."""
    negative = one.select(one.negative)
    on = _peaks(negative, frame.negative_weights[one.negative], frame.negative_draws, frame.negative_shares)
    at = At(one, frame, over_budgets(on, LARGEST_STOPPED))
    found = frame.bootstrap.ratios({"recall": at.mean(at.found, one.failing), "lead": at.mean(at.leads, one.failing)})
    return Area(**found)


def measured_at(at: "At") -> Point:
    """Every score at one threshold of the measured runs."""
    one, frame, threshold = at.one, at.frame, at.threshold
    delays = {
        "from_onset": _Delay(at, one.failing, one.onset),
        "from_visible": _Delay(at, one.visible_in_time, one.visible),
    }
    diagnoses = _Diagnosis(at)
    found = frame.bootstrap.ratios(
        {
            ("recall",): at.mean(at.found, one.failing),
            ("of_visible",): at.ratio(at.found, one.visible_in_time, RATE),
            ("healthy",): at.mean(at.alarmed, one.healthy),
            ("look_alike",): at.mean(at.alarmed, one.look_alike),
            ("mixed",): at.mean(at.alarmed, frame.negative_weights),
            ("lead",): at.mean(at.leads, one.failing),
            **{(name, *key): ratio for name, part in delays.items() for key, ratio in part.ratios().items()},
            **diagnoses.ratios(),
        }
    )
    recall = Recall(
        *found["recall",],
        threshold=None if threshold is None else threshold.exact(),
        stopped=at.share(found["healthy",], at.alarmed, one.healthy),
        stopped_look_alike=at.share(found["look_alike",], at.alarmed, one.look_alike),
        stopped_mixed=found["mixed",],
        of_visible=_of_visible(found["of_visible",], at),
    )
    return Point(
        recall=recall,
        lead=found["lead",],
        delay={
            name: part.facts({key[1:]: value for key, value in found.items() if key[0] == name})
            for name, part in delays.items()
        },
        diagnosis=diagnoses.facts(found),
        skill=_skill(at),
    )


def _of_visible(found: Estimate, at: "At") -> Estimate:
    """Recall over the share that is visible in time; exact where, on every resample, it is none or all of these."""
    if not math.isnan(found.low) or found.value not in SHARE:
        return found
    boot, mask = at.frame.bootstrap, at.one.visible_in_time
    return Estimate(found.value, *boot.interval(found.value, np.full(boot.drawn, found.value), mask, SHARE))


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
        return np.asarray(in_time(self.firsts, self.one.onset, self.one.no_return) & self.one.failing)

    @cached_property
    def leads(self) -> np.ndarray:
        return delay.lead(self.firsts, self.one.onset, self.one.visible, self.one.no_return)

    @cached_property
    def alarmed(self) -> np.ndarray:
        return np.asarray(np.isfinite(self.firsts))

    def expected(self, values: np.ndarray) -> np.ndarray:
        """Expectation of each run's value over the levels. values: [T, N]. Returns [N]"""
        return np.asarray(self.chances @ values)

    def mean(self, values: np.ndarray, weights: np.ndarray, bounds: tuple[float, float] = SHARE) -> Ratio:
        """Expected mean of values [T, N] over the runs by weights [N], or under a mask."""
        return self.ratio(values * weights, weights, bounds)

    def ratio(self, above: np.ndarray, below: np.ndarray, bounds: tuple[float, float]) -> Ratio:
        """Expected sum of `above` [T, N] over the sum of `below` [N]."""
        return Ratio(above.T, below, bounds, self.chances, self.samples)

    def share(self, estimate: Estimate, values: np.ndarray, mask: np.ndarray) -> Share:
        """The estimate of a mean of values [T, N] over the runs under mask [N], with how many there are."""
        return share_of(estimate, self.expected(values), mask)


def share_of(estimate: Estimate, expected: np.ndarray, mask: np.ndarray) -> Share:
    """The estimate of a mean of expectations [N] over the runs under mask [N], with how many there are."""
    return Share(*estimate, float(expected[mask].sum()), int(mask.sum()))


def _peaks(one: Outcomes, weights: np.ndarray, draws: np.ndarray, known: tuple[np.ndarray, np.ndarray]) -> Peaks:
    floor = min((float(scores[0]) for scores in one.scores if len(scores)), default=-np.inf)
    return Peaks(peaks(one), weights, draws, one.crashed, floor, known)


def peaks(one: Outcomes) -> np.ndarray:
    """Largest score of each run; infinite for one on which the detector failed. [N]"""
    return np.where(one.crashed, np.inf, peak(one.scores))


class _Delay:
    """Time to detection from an origin, that of the runs under mask. mask, origin: [N]."""

    def __init__(self, at: At, mask: np.ndarray, origin: np.ndarray) -> None:
        self.at, self.mask = at, mask
        self.clocks = at.one.onset[mask], at.one.no_return[mask], origin[mask]
        self.time, self.event = delay.events(at.firsts[:, mask], *self.clocks)
        self.used = at.chances != 0
        self.instants = np.unique(np.linspace(0.0, self.time[self.used].max(initial=0.0), INSTANTS).round())

    def ratios(self) -> dict[tuple[str, ...], Ratio]:
        steps, share = np.zeros((2, len(self.at.firsts), len(self.mask)))
        steps[:, self.mask], share[:, self.mask] = delay.restricted_delay(self.at.firsts[:, self.mask], *self.clocks)
        wanted = {("steps",): self.at.mean(steps, self.mask, RATE), ("share",): self.at.mean(share, self.mask)}
        detected = np.zeros((len(self.mask), len(self.instants)))
        time, found = self.time[self.used], self.event[self.used] == delay.Event.DETECTED
        for i, instant in enumerate(self.instants.tolist()):
            detected[self.mask, i] = self.at.chances[self.used] @ (found & (time <= instant))
        return wanted | {("by", str(i)): Ratio(detected[:, i], self.mask) for i in range(len(self.instants))}

    def facts(self, found: Mapping[tuple[str, ...], Estimate]) -> dict[str, Any]:
        """As in `Point.delay`. found: the estimates of `ratios`."""
        weights = np.broadcast_to(self.at.chances[:, None], self.time.shape)[self.used].ravel()
        flat = self.time[self.used].ravel(), self.event[self.used].ravel()
        incidence = {
            kind.name.lower(): dict(
                zip(("steps", "share"), delay.cumulative_incidence(*flat, kind, weights), strict=True)
            )
            for kind in delay.Event
        }
        by = [found["by", str(i)] for i in range(len(self.instants))]
        return {
            "detected_by": {"steps": self.instants}
            | {name: [getattr(one, name) for one in by] for name in Estimate._fields},
            "restricted_mean_steps": found["steps",],
            "restricted_mean_share": found["share",],
            "incidence": incidence,
        }


class _Diagnosis:
    """In time and right, by level and by how many answers count.

    named: level of a threshold to the causes named in time by each run. places: by level of the diagnosis, [T, N], how
    many of them come before the first that is right.
    """

    def __init__(self, at: At) -> None:
        self.at, self.levels = at, at.frame.levels
        self.used = [i for i in np.flatnonzero(at.chances).tolist() if not np.isnan(at.chances[i])]
        causes = [self._in_time(i) for i in self.used]
        families = [diagnosis.by_family(answers, at.frame.family_of) for answers in causes]
        self.named = {name: families if name == "family" else causes for name in self.levels}
        self.places = {
            name: np.array([level.places(answers) for answers in self.named[name]])
            for name, level in self.levels.items()
        }

    def _in_time(self, i: int) -> list[tuple[str, ...]]:
        """The causes that each run's alarm names, none where it is not in time, at one level of the threshold."""
        found, one = self.at.found[i], self.at.one
        if self.at.threshold is None:
            return [answer if hit else () for hit, answer in zip(found.tolist(), one.named, strict=True)]
        return one.named_at(np.where(found, self.at.firsts[i], np.inf))

    def ratios(self) -> dict[tuple[str, ...], Ratio]:
        return {("diagnosis", level, str(k)): self._macro(level, k) for level in self.levels for k in TOP}

    def facts(self, found: Mapping[tuple[str, ...], Estimate]) -> dict[str, Any]:
        """As in `Point.diagnosis`. found: the estimates of `ratios`."""
        failing = self.at.one.failing
        facts: dict[str, Any] = {}
        for name, level in self.levels.items():
            facts[name] = {
                str(k): {"macro": found["diagnosis", name, str(k)], **guesses} for k, guesses in level.guesses.items()
            }
            if name != "cause_within_set":
                facts[name]["confusion"] = diagnosis.confusion(
                    self.at.found[self.used][:, failing].ravel(),
                    np.tile(level.truth[failing], len(self.used)),
                    [answer for given in self.named[name] for answer in compress(given, failing)],
                    np.repeat(self.at.chances[self.used], failing.sum()),
                )
        return facts

    def _macro(self, level: str, k: int) -> Ratio:
        """Mean over causes of the mean over each cause's failing runs."""
        weights = self.levels[level].weights
        if not self.used:
            return Ratio(np.full(len(weights), math.nan), weights)
        right = self.at.chances[self.used] @ (self.places[level] < k)
        return Ratio(right * weights, weights)


def _skill(at: At) -> dict[str, dict[float, Estimate]]:
    one, frame = at.one, at.frame
    failing, negative = one.failing, one.negative
    nothing = dict.fromkeys(PREVALENCES, NOTHING)
    if not (failing.any() and negative.any()) or np.isnan(at.chances).any():
        return dict.fromkeys(COSTS, nothing)
    labels = skill_runs(one)
    gain, loss = np.zeros((2, len(COSTS), len(at.firsts), len(one)))
    for c, cost in enumerate(COSTS):
        gain[c][:, failing] = skill.gains(at.firsts[:, failing], labels, cost)
        loss[c][:, negative] = skill.losses(at.firsts[:, negative], labels.healthy_last, cost)
    gains, losses = frame.expectations(gain.transpose(2, 1, 0), loss.transpose(2, 1, 0), at.samples)
    found: dict[str, dict[float, Estimate]] = {}
    for c, cost in enumerate(COSTS):
        found[cost] = {}
        for prevalence in PREVALENCES:
            blind = frame.blind[cost, prevalence]
            means = at.expected(gain[c])[failing].mean(), at.expected(loss[c])[negative].mean()
            value = skill.utility(*means, prevalence)
            utilities = np.asarray(skill.utility(gains[:, c], losses[:, c], prevalence))
            exact = float(skill.skill(np.array([value]), np.array([blind.value]), np.array([blind.ceiling]))[0])
            samples = skill.skill(utilities, blind.samples, blind.ceilings)
            found[cost][prevalence] = Estimate(exact, *frame.bootstrap.interval(exact, samples, failing | negative))
    return found

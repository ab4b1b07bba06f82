"""Alarms and labels to a scorecard: every metric of the specification, once."""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.constants import (
    CLUSTERS,
    HEADLINE_BUDGET,
    HEADLINE_COST,
    HEADLINE_PREVALENCE,
    LARGEST_STOPPED,
    RATE_STEPS,
    SCORING_VERSION,
)
from trainwreck.evaluation.dataset.schema import RunKind
from trainwreck.evaluation.intervals import interval_text, poisson_interval
from trainwreck.evaluation.replay.alarms import CONFINEMENT, FAILURES_OF_A_DETECTOR, confined_text
from trainwreck.evaluation.replay.replay import Alarms
from trainwreck.evaluation.scoring.breakdown import breakdown, exposure, operating, threshold_curves
from trainwreck.evaluation.scoring.metrics.bootstrap import NOTHING, RATE, Estimate, Share
from trainwreck.evaluation.scoring.metrics.recall import in_time
from trainwreck.evaluation.scoring.metrics.thresholds import Randomised
from trainwreck.evaluation.scoring.operating_points import (
    DEFAULT,
    Area,
    At,
    Point,
    Recall,
    area,
    measured_at,
    thresholds,
)
from trainwreck.evaluation.scoring.outcomes import Outcomes, outcomes
from trainwreck.evaluation.scoring.reference import Baseline
from trainwreck.evaluation.short_forms import Series, count, few

# The numbers that summarise a scorecard, attribute to unit; each is defined by the attribute's docstring.
HEADLINES = {
    "in_time_recall": "share of failing runs",
    "healthy_stopped": "share of healthy runs",
    "look_alikes_stopped": "share of look-alike runs",
    "area": f"mean over up to {LARGEST_STOPPED:.0%} stopped",
    "volume": f"mean over up to {LARGEST_STOPPED:.0%} stopped",
    "steps_to_alarm": "steps",
    "lead": "share of the time to act",
    "cost_skill": "1, best 1",
    "cause_top_1": "share of causes",
    "cause_top_3": "share of causes",
}


@dataclass(frozen=True, repr=False)
class Scorecard:
    """Everything measured of one detector on one data set under one profile and track.

    The headline numbers are attributes of their own, each a value with a 95 % interval (`value`, `low`, `high`; NaN
    where it is undefined). All but area and volume are of one operating point, a budget of 5 %: in_time_recall,
    healthy_stopped, look_alikes_stopped, steps_to_alarm, lead, cost_skill, cause_top_1 and cause_top_3. lead: mean over
    failing runs of the share of the steps from the visible step to the point of no return that is left at the
    first alarm; 0 for a miss.

    Scores are of the runs outside the tuning splits. points: operating point ("default", "0.01", "0.05") to `Point`;
    recall, delay, diagnosis and skill are those of the headline's. free: the threshold-free `Area`. ceiling: share of
    failing runs that the profile shows before their point of no return, which no detector's recall should exceed.
    false_alarm_rate, false_stop and monitor_recall are of the published default. statuses: how the replays ended, kind
    to runs. breakdown: recall within the headline budget by family, scenario and what was held out, and the share
    stopped by look-alike. curves: metric 7. seeds: scores by seed of a detector that draws (`seeding`), where several
    were asked for; all else is of the first. outcomes and alarms are the raw material: labels joined with alarms of the
    measured runs, and the alarms of every run that was shown.
    """

    detector: str
    profile: str
    track: str
    about: dict[str, Any]
    counts: dict[str, int]
    statuses: dict[str, int]
    notes: tuple[str, ...]
    points: dict[str, Point]
    free: Area
    ceiling: Estimate
    false_alarm_rate: Estimate
    false_stop: dict[str, Share]
    monitor_recall: Estimate
    cost: dict[str, Any]
    recall_by_scenario: dict[str, float]
    breakdown: dict[str, dict[str, Share]]
    curves: dict[str, Any]
    outcomes: Outcomes = field(repr=False)
    baseline: Baseline = field(repr=False)
    alarms: tuple[Alarms, ...] = field(repr=False)
    scoring_version: int = SCORING_VERSION
    seeds: dict[str, list[float]] = field(default_factory=dict)

    @property
    def recall(self) -> dict[str, Recall]:
        """Operating point to in-time recall there, with the shares stopped."""
        return {name: point.recall for name, point in self.points.items()}

    @property
    def at_headline(self) -> Point:
        """All scores within the headline budget, 5 %."""
        return self.points[str(HEADLINE_BUDGET)]

    @property
    def in_time_recall(self) -> Recall:
        """Share of failing runs with the first alarm at or after the onset and before the point of no return, with the
        threshold frozen so that 5 % of further healthy and look-alike runs are expected to be stopped."""
        return self.at_headline.recall

    headline = in_time_recall

    @property
    def healthy_stopped(self) -> Share:
        """Share of measured healthy runs with an alarm."""
        return self.in_time_recall.stopped

    @property
    def look_alikes_stopped(self) -> Share:
        """Share of look-alike runs with an alarm."""
        return self.in_time_recall.stopped_look_alike

    @property
    def false_alarms(self) -> Estimate:
        """Alarms per 10,000 steps of healthy runs and of failing runs before the onset, at the published default."""
        return self.false_alarm_rate

    @property
    def area(self) -> Estimate:
        """Mean in-time recall over shares stopped from 0 to 10 %: the area under the curve, between 0 and 1."""
        return self.free.recall

    @property
    def volume(self) -> Estimate:
        """As `area`, averaged over the delay that is tolerated as well."""
        return self.free.lead

    @property
    def steps_to_alarm(self) -> Estimate:
        """Mean steps from the onset to the first alarm; a miss counts to the point of no return."""
        found: Estimate = self.delay["from_onset"]["restricted_mean_steps"]
        return found

    @property
    def lead(self) -> Estimate:
        """Share of the steps from visible to the point of no return that is left at the first alarm."""
        return self.at_headline.lead

    @property
    def delay(self) -> dict[str, Any]:
        """Delays, as in `Point`."""
        return self.at_headline.delay

    @property
    def diagnosis(self) -> dict[str, Any]:
        """Diagnosis, as in `Point`."""
        return self.at_headline.diagnosis

    @property
    def skill(self) -> dict[str, dict[float, Estimate]]:
        """Cost profile to prevalence to W*."""
        return self.at_headline.skill

    @property
    def cost_skill(self) -> Estimate:
        """W*: what is gained over the best detector that sees nothing, 1 for one that knows the label; where a tenth of
        the runs fail and an alarm costs a rollback."""
        return self.skill[HEADLINE_COST][HEADLINE_PREVALENCE]

    headline_skill = cost_skill

    @property
    def cause_top_1(self) -> Estimate:
        """Share of a cause's failing runs that are alarmed in time with a true cause named first; mean over causes."""
        found: Estimate = self.diagnosis["cause"]["1"]["macro"]
        return found

    @property
    def cause_top_3(self) -> Estimate:
        """As `cause_top_1`, with a true cause among the first three named."""
        found: Estimate = self.diagnosis["cause"]["3"]["macro"]
        return found

    def at(self, point: str) -> At:
        """First alarms at each level of an operating point's threshold, and what follows from them."""
        return At(self.outcomes, self.baseline, self.points[point].recall.threshold)

    def detected(self, point: str) -> np.ndarray:
        """Chance that each measured failing run is detected in time at an operating point. [N]"""
        at = self.at(point)
        return at.expected(at.found)

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Share of healthy runs stopped and in-time recall over all thresholds. [K], [K]"""
        return operating(self.outcomes)

    def text(self) -> str:
        """The scorecard in a few lines for a person; every number with its 95 % interval."""
        lines = [
            f"{self.detector} on {self.counts['failing']} failing, {self.counts['healthy']} healthy and "
            f"{self.counts['look_alike']} look-alike runs ({self.profile} profile, {self.track} track)",
            f"  {'':27} {' '.join(f'{point_name(point):20}' for point in self.points)}".rstrip(),
        ]
        for name, value in TEXT_ROWS.items():
            lines.append(f"  {name:27} {' '.join(f'{_text(value(one)):20}' for one in self.points.values())}".rstrip())
        ceiling = self.ceiling
        within = self.diagnosis["cause_within_set"]["1"]
        lines += [
            f"  no threshold: mean recall up to {LARGEST_STOPPED:.0%} stopped {_text(self.area)}, with delay tolerated "
            f"{_text(self.volume)}",
            f"  visible in time under this profile {_text(ceiling)} of failing runs: recall at "
            f"{HEADLINE_BUDGET:.0%} is {_text(self.in_time_recall.of_visible)} of that",
            f"  cause by chance {self.diagnosis['cause']['1']['chance']:.2f}; any of its equivalence set, at "
            f"{HEADLINE_BUDGET:.0%}, {_text(within['macro'])} (chance {within['chance']:.2f})",
            f"  its own alarms: {_text(self.false_alarm_rate)} per {RATE_STEPS:,} healthy steps; "
            f"{self.cost['update_us']:.1f} us an update",
        ]
        if confined := confined_text(self.about.get(CONFINEMENT)):
            lines.append(f"  in a process of its own, confined by {confined}")
        if self.seeds:
            from trainwreck.evaluation.scoring.detector_seeds import in_words

            lines.append(f"  {in_words(self.seeds)}")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return few(self.text().splitlines())

    def _repr_html_(self) -> str:
        first, *rest = self.text().splitlines()
        notes = "".join(f"<p>{escape(line.strip())}</p>" for line in rest if line.startswith("  note: "))
        return f"<p>{escape(first)}</p>{self.to_frame().to_html(float_format='{:.3f}'.format)}{notes}"

    def to_frame(self) -> pd.DataFrame:
        """The headline numbers, a row each by name: value, low, high, unit."""
        found = [(name, *getattr(self, name)[:3], unit) for name, unit in HEADLINES.items()]
        return pd.DataFrame(found, columns=["name", "value", "low", "high", "unit"]).set_index("name")

    def to_dict(self, *, scores: bool = False) -> dict[str, Any]:
        """JSON-safe, NaN as None, raw alarms included; with `scores` every row's score as well."""
        raw = {"outcomes", "baseline", "alarms"}
        facts = {f.name: plain(getattr(self, f.name)) for f in fields(self) if f.name not in raw}
        return facts | {"alarms": [one.to_dict(scores=scores) for one in self.alarms]}


def measure(
    detector: str, track: str, about: Mapping[str, Any], replayed: Mapping[str, Alarms], frame: Baseline
) -> Scorecard:
    """The scorecard of a detector from its alarms on every run that is scored.

    replayed: run_id to Alarms, under the profile of the frame.
    """
    one, calibration = outcomes(frame.labels, replayed), outcomes(frame.calibration_labels, replayed)
    in_order = [replayed[run_id] for run_id in frame.everything.run_id.tolist() if run_id in replayed]
    at = {name: At(one, frame, threshold) for name, threshold in thresholds(calibration, frame).items()}
    headline = at[str(HEADLINE_BUDGET)]
    found = headline.expected(headline.found)
    monitored = np.array(
        [_first_from(edges, onset) for edges, onset in zip(one.edges, one.onset, strict=True)], dtype=np.float64
    )
    monitored = np.where(one.crashed, np.inf, monitored)
    mean = frame.bootstrap.mean
    return Scorecard(
        detector=detector,
        profile=frame.profile,
        track=track,
        about=dict(about),
        counts=_counts(frame, one, in_order),
        statuses=dict(sorted(Counter(alarms.outcome for alarms in replayed.values()).items())),
        notes=(*frame.notes, *_notes(frame, one), *_failures(replayed)),
        points={name: measured_at(point) for name, point in at.items()},
        free=area(one, frame),
        ceiling=mean(one.visible_in_time, one.failing),
        false_alarm_rate=_false_alarm_rate(one, frame),
        false_stop=_false_stop(at[DEFAULT]),
        monitor_recall=mean(in_time(monitored, one.onset, one.no_return), one.failing),
        cost=_cost(in_order),
        recall_by_scenario=_by_scenario(one.scenario[one.failing], found[one.failing]),
        breakdown=breakdown(headline),
        curves=threshold_curves(one),
        outcomes=one,
        baseline=frame,
        alarms=Series(in_order),
    )


def _by_scenario(scenario: np.ndarray, found: np.ndarray) -> dict[str, float]:
    names, code = np.unique(scenario, return_inverse=True)
    shares = np.bincount(code, weights=found) / np.bincount(code)
    return dict(zip(names.tolist(), shares.tolist(), strict=True))


def point_name(point: str) -> str:
    """An operating point in words."""
    return "published default" if point == DEFAULT else f"budget {float(point):.0%}"


TEXT_ROWS: dict[str, Callable[[Point], Sequence[Any]]] = {
    "in-time recall": lambda point: point.recall,
    "healthy runs stopped": lambda point: point.recall.stopped,
    "look-alikes stopped": lambda point: point.recall.stopped_look_alike,
    "steps from onset to alarm": lambda point: point.delay["from_onset"]["restricted_mean_steps"],
    "lead": lambda point: point.lead,
    "W* (rollback, 10 % failing)": lambda point: point.skill[HEADLINE_COST][HEADLINE_PREVALENCE],
    "cause, top 1": lambda point: point.diagnosis["cause"]["1"]["macro"],
    "cause, top 3": lambda point: point.diagnosis["cause"]["3"]["macro"],
}
"""What a scorecard in words has at each operating point; a miss counts to the point of no return."""


def _text(estimate: Sequence[Any]) -> str:
    return interval_text(*estimate[:3])


def _false_alarm_rate(one: Outcomes, frame: Baseline) -> Estimate:
    """Metric 1: new alarms per 10^4 healthy steps; without any, with the exact Poisson interval."""
    steps = exposure(one)
    if not steps.any():
        return NOTHING
    alarms = np.array([(edges < healthy).sum() for edges, healthy in zip(one.edges, steps, strict=True)])
    if not alarms.any():
        return Estimate(0.0, 0.0, poisson_interval(0)[1] * RATE_STEPS / steps.sum())
    return frame.bootstrap.ratio(alarms * float(RATE_STEPS), steps, RATE)


def _false_stop(own: At) -> dict[str, Share]:
    """Metric 1b: share of runs with any alarm of the detector's own, by kind."""
    kinds = (RunKind.HEALTHY, RunKind.LOOK_ALIKE, RunKind.LATENT, RunKind.CURED)
    masks = {kind.value: own.one.kind == kind.value for kind in kinds}
    found = own.frame.bootstrap.ratios({kind: own.mean(own.alarmed, mask) for kind, mask in masks.items()})
    return {kind: own.share(found[kind], own.alarmed, mask) for kind, mask in masks.items()}


def _first_from(edges: np.ndarray, onset: float) -> float:
    later = edges[edges >= onset]
    return float(later[0]) if len(later) else math.inf


def _counts(frame: Baseline, one: Outcomes, replayed: Sequence[Alarms]) -> dict[str, int]:
    return {
        "runs": len(frame.everything),
        "measured": len(one),
        "failing": int(one.failing.sum()),
        "never_visible": int(one.never_visible.sum()),
        "lost_before_visible": int((one.failing & (one.no_return <= one.visible)).sum()),
        "no_return_measured": int((one.failing & one.return_measured).sum()),
        "healthy": int(one.healthy.sum()),
        "look_alike": int(one.look_alike.sum()),
        "latent": int((one.kind == RunKind.LATENT.value).sum()),
        "cured": int((one.kind == RunKind.CURED.value).sum()),
        "visible_in_time": int(one.visible_in_time.sum()),
        "calibration_healthy": int(frame.calibration_labels.healthy.sum()),
        "calibration_look_alike": int(frame.calibration_labels.look_alike.sum()),
        "crashed": sum(alarms.crashed for alarms in replayed),
    }


def _notes(frame: Baseline, one: Outcomes) -> list[str]:
    notes = []
    guessed = int((one.failing & ~one.return_measured).sum())
    if guessed:
        notes.append(f"the point of no return was not measured for {guessed} failing runs: there p = T")
    if one.never_visible.any():
        notes.append(f"{count(int(one.never_visible.sum()), 'failing run')} left out, never visible")
    not_shown = int((~frame.everything.tuning & (frame.everything.kind == RunKind.NOT_SHOWN.value)).sum())
    if not_shown:
        notes.append(f"{count(not_shown, 'run')} whose fault is not shown: neither failing nor healthy")
    if not one.failing.any():
        notes.append("no failing run with a visible step: recall, delay, lead, diagnosis and skill are undefined")
    scenarios, seeds = (len(np.unique(values[one.failing])) for values in (one.subject, one.seed))
    if 0 < min(scenarios, seeds) < CLUSTERS:
        notes.append(
            f"clusters of failing runs: {scenarios} by scenario, {seeds} by seed; under {CLUSTERS} of either intervals "
            "are uncertain themselves"
        )
    return notes


def _failures(replayed: Mapping[str, Alarms]) -> list[str]:
    """A note for each kind of failure, with the first run that ended so and what was printed last."""
    notes = []
    every = [alarms for alarms in replayed.values() if alarms.crashed]
    for kind in FAILURES_OF_A_DETECTOR:
        failed = [alarms for alarms in every if alarms.outcome == kind]
        if failed:
            first = min(failed, key=lambda alarms: alarms.run_id)
            printed = f"; it printed last: {' | '.join(first.stderr[-3:])}" if first.stderr else ""
            where = f"{kind} on {len(failed)} runs, a miss on each that fails"
            notes.append(f"{where}; {first.run_id}: {first.status}{printed}")
    return notes


def _cost(replayed: Sequence[Alarms]) -> dict[str, Any]:
    rows = sum(one.rows for one in replayed)
    spent = sum(one.update_us * one.rows for one in replayed)
    crashes = sorted({one.status for one in replayed if one.crashed})
    return {
        "update_us": spent / rows if rows else math.nan,
        "state_bytes": max((one.state_bytes for one in replayed if one.state_bytes is not None), default=None),
        "crashes": crashes[:5],
    }


def plain(value: Any) -> Any:
    """The same in what JSON has: NaN and infinity become None, named tuples objects, arrays lists."""
    if isinstance(value, Randomised):
        chances = zip(value.levels.tolist(), value.chances.tolist(), strict=True)
        return [{"level": repr(level), "chance": chance} for level, chance in chances]
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if dataclasses.is_dataclass(value):
        return plain({one.name: getattr(value, one.name) for one in fields(value)})
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if all(type(item) is float for item in value):  # rows of a confusion matrix: a call for each would add up
            return [item if math.isfinite(item) else None for item in value]
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value

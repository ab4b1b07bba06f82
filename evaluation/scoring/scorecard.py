"""Alarms and labels to a scorecard: every metric of the specification, once."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from trainwreck.evaluation.constants import (
    BUDGETS,
    CALIBRATION_RUNS,
    CLUSTERS,
    COSTS,
    HEADLINE_BUDGET,
    HEADLINE_COST,
    HEADLINE_PREVALENCE,
    PREVALENCES,
    RATE_STEPS,
    SCORING_VERSION,
    TOP,
)
from trainwreck.evaluation.dataset.schema import FAILURES, RunKind
from trainwreck.evaluation.intervals import interval_text
from trainwreck.evaluation.replay.alarms import FAILURES_OF_A_DETECTOR, labelled_alarms
from trainwreck.evaluation.replay.replay import Alarms
from trainwreck.evaluation.scoring.breakdown import breakdown, exposure, operating, peaks, threshold_curves
from trainwreck.evaluation.scoring.equivalence_sets import Sets, shipped
from trainwreck.evaluation.scoring.metrics import delay, diagnosis, skill
from trainwreck.evaluation.scoring.metrics.bootstrap import Estimate
from trainwreck.evaluation.scoring.metrics.delay import lead
from trainwreck.evaluation.scoring.metrics.false_alarms import Share, false_alarm_rate, false_stop
from trainwreck.evaluation.scoring.metrics.recall import first_above, freeze_threshold, in_time
from trainwreck.evaluation.scoring.outcomes import Outcomes, outcomes
from trainwreck.evaluation.scoring.reference import Baseline, skill_runs
from trainwreck.evaluation.scoring.run_labels import scored

INSTANTS = 25  # at which the share detected by then is given with its interval


class Recall(NamedTuple):
    """In-time recall at one operating point, with the share of measured runs that it stops.

    threshold is NaN at the published default, where the detector's own alarm counts.
    """

    value: float
    low: float
    high: float
    threshold: float
    stopped: Share  # healthy runs
    stopped_look_alike: Share


# The numbers that summarise a scorecard, attribute to unit; each is defined by the attribute's docstring.
HEADLINES = {
    "in_time_recall": "share of failing runs",
    "healthy_stopped": "share of healthy runs",
    "look_alikes_stopped": "share of look-alike runs",
    "false_alarms": f"alarms per {RATE_STEPS:,} healthy steps",
    "steps_to_alarm": "steps",
    "lead": "share of the time to act",
    "cost_skill": "1, best 1",
    "cause_top_1": "share of causes",
    "cause_top_3": "share of causes",
}
REPR_LINES = 30


@dataclass(frozen=True, repr=False)
class Scorecard:
    """Everything measured of one detector on one data set under one profile and track.

    The headline numbers are attributes of their own, each a value with a 95 % interval (`value`, `low`, `high`; NaN
    where it is undefined): in_time_recall, healthy_stopped, look_alikes_stopped, false_alarms, steps_to_alarm, lead,
    cost_skill, cause_top_1 and cause_top_3. lead: mean over failing runs of the share of the steps from the visible
    step to the point of no return that is left at the first alarm; 0 for a miss.

    Scores are of the runs outside the tuning splits. recall: operating point ("default", "0.01",
    "0.05") to Recall. statuses: how the replays ended, kind to runs. skill: cost profile to prevalence to W*.
    breakdown: recall within the headline budget by family, scenario and what was held out, and the share stopped
    by look-alike. curves: metric 7. seeds: scores by seed of a detector that draws (`seeding`), where several were
    asked for; all else is of the first. outcomes and alarms are the raw material: labels joined with alarms of the
    measured runs, and the alarms of every run that was shown.
    """

    detector: str
    profile: str
    track: str
    about: dict[str, Any]
    counts: dict[str, int]
    statuses: dict[str, int]
    notes: tuple[str, ...]
    false_alarm_rate: Share
    false_stop: dict[str, Share]
    recall: dict[str, Recall]
    monitor_recall: Estimate
    delay: dict[str, Any]
    lead: Estimate
    diagnosis: dict[str, Any]
    skill: dict[str, dict[float, Estimate]]
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
    def in_time_recall(self) -> Recall:
        """Share of failing runs with the first alarm at or after the onset and before the point of no return, with the
        threshold frozen so that at most 5 % of the healthy calibration runs are stopped."""
        return self.recall[str(HEADLINE_BUDGET)]

    headline = in_time_recall

    @property
    def healthy_stopped(self) -> Share:
        """Share of measured healthy runs with an alarm, at the threshold of `in_time_recall`."""
        return self.in_time_recall.stopped

    @property
    def look_alikes_stopped(self) -> Share:
        """Share of look-alike runs with an alarm, at the threshold of `in_time_recall`."""
        return self.in_time_recall.stopped_look_alike

    @property
    def false_alarms(self) -> Share:
        """Alarms per 10,000 steps of healthy runs and of failing runs before the onset, at the published default."""
        return self.false_alarm_rate

    @property
    def steps_to_alarm(self) -> Estimate:
        """Mean steps from the onset to the first alarm, at the published default; a miss counts to the point of no
        return."""
        found: Estimate = self.delay["from_onset"]["restricted_mean_steps"]
        return found

    @property
    def cost_skill(self) -> Estimate:
        """W*: what is gained over the best detector that sees nothing, 1 for one that knows the label; where a tenth of
        the runs fail and an alarm costs a rollback."""
        return self.skill[HEADLINE_COST][HEADLINE_PREVALENCE]

    headline_skill = cost_skill

    @property
    def cause_top_1(self) -> Estimate:
        """Share of a cause's failing runs that are alarmed in time, at the published default, with a true cause named
        first; mean over causes."""
        found: Estimate = self.diagnosis["cause"]["1"]["macro"]
        return found

    @property
    def cause_top_3(self) -> Estimate:
        """As `cause_top_1`, with a true cause among the first three named."""
        found: Estimate = self.diagnosis["cause"]["3"]["macro"]
        return found

    def first_alarms(self, point: str) -> np.ndarray:
        """First alarm of each measured run at an operating point; inf without one. [N]"""
        if point == "default":
            return self.outcomes.first
        return _first_alarms(self.outcomes, self.recall[point].threshold)

    def detected(self, point: str) -> np.ndarray:
        """Which measured failing runs are detected in time at an operating point. [N] bool"""
        found = in_time(self.first_alarms(point), self.outcomes.onset, self.outcomes.no_return)
        return np.asarray(found & self.outcomes.failing)

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Share of healthy runs stopped and in-time recall over all thresholds. [K], [K]"""
        return operating(self.outcomes)

    def text(self) -> str:
        """The scorecard in a few lines for a person; every number with its 95 % interval."""
        lines = [
            f"{self.detector} on {self.counts['failing']} failing, {self.counts['healthy']} healthy and "
            f"{self.counts['look_alike']} look-alike runs ({self.profile} profile, {self.track} track)"
        ]
        for point, recall in self.recall.items():
            name = "published default" if point == "default" else f"budget {float(point):.0%}"
            lines.append(
                f"  in-time recall, {name:18} {_text(recall)}   stops {_text(recall.stopped)} of healthy runs, "
                f"{_text(recall.stopped_look_alike)} of look-alikes"
            )
        delay = self.delay["from_onset"]["restricted_mean_steps"]
        lines += [
            f"  false alarms per 10,000 healthy steps {_text(self.false_alarm_rate)}",
            f"  steps from onset to alarm (a miss counts to the end) {_text(delay)}",
            f"  lead {_text(self.lead)}   W* (rollback, 10 % failing) {_text(self.headline_skill)}",
            f"  cause, top 1 {_text(self.diagnosis['cause']['1']['macro'])}, "
            f"top 3 {_text(self.diagnosis['cause']['3']['macro'])} "
            f"(chance {self.diagnosis['cause']['1']['chance']:.2f}); within its equivalence set, top 1 "
            f"{_text(self.diagnosis['cause_within_set']['1']['macro'])} "
            f"(chance {self.diagnosis['cause_within_set']['1']['chance']:.2f})",
            f"  {self.cost['update_us']:.1f} us an update",
        ]  # fmt: skip
        if self.seeds:
            from trainwreck.evaluation.scoring.detector_seeds import in_words

            lines.append(f"  {in_words(self.seeds)}")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        lines = self.text().splitlines()
        return "\n".join(lines if len(lines) <= REPR_LINES else [*lines[: REPR_LINES - 1], "  ..."])

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
    detector: str,
    profile: str,
    track: str,
    about: Mapping[str, Any],
    runs: pd.DataFrame,
    replayed: Mapping[str, Alarms],
    frame: Baseline,
) -> Scorecard:
    """The scorecard of a detector from its alarms on every run that is scored. replayed: run_id to Alarms."""
    skipped = runs["run_id"][~scored(runs) & ~runs["run_id"].isin(list(replayed))]
    everything = outcomes(runs, {**replayed, **{run_id: labelled_alarms(run_id, -1, None) for run_id in skipped}})
    in_order = [replayed[run_id] for run_id in runs["run_id"] if run_id in replayed]
    one = everything.select(frame.measured)
    calibration = everything.select(everything.calibration)
    failing = one.failing
    found = in_time(one.first, one.onset, one.no_return) & failing
    thresholds = {str(budget): freeze_threshold(peaks(calibration), budget) for budget in BUDGETS}
    firsts = {"default": one.first} | {point: _first_alarms(one, threshold) for point, threshold in thresholds.items()}
    monitored = np.array(
        [_first_from(edges, onset) for edges, onset in zip(one.edges, one.onset, strict=True)], dtype=np.float64
    )
    monitored = np.where(one.crashed, np.inf, monitored)
    at_headline = in_time(firsts[str(HEADLINE_BUDGET)], one.onset, one.no_return)
    mean = frame.bootstrap.mean
    leads = lead(one.first, one.onset, one.visible, one.no_return)
    return Scorecard(
        detector=detector,
        profile=profile,
        track=track,
        about=dict(about),
        counts=_counts(everything, one),
        statuses=dict(sorted(Counter(alarms.outcome for alarms in replayed.values()).items())),
        notes=(*frame.notes, *_notes(one, calibration), *_failures(replayed)),
        false_alarm_rate=false_alarm_rate(one.edges, exposure(one)),
        false_stop={
            kind.value: false_stop(one.first[one.kind == kind.value])
            for kind in (RunKind.HEALTHY, RunKind.LOOK_ALIKE, RunKind.LATENT, RunKind.CURED)
        },
        recall={point: _recall(one, frame, first, thresholds.get(point, math.nan)) for point, first in firsts.items()},
        monitor_recall=mean(in_time(monitored, one.onset, one.no_return), failing),
        delay={
            "from_onset": _delay(one, frame, one.onset),
            "from_visible": _delay(one, frame, one.visible),
        },
        lead=mean(leads, failing),
        diagnosis=_diagnosis(one, frame, found, shipped(profile)),
        skill={cost: _skill(one, frame, cost) for cost in COSTS},
        cost=_cost(in_order),
        recall_by_scenario={
            str(name): float(at_headline[failing & (one.scenario == name)].mean())
            for name in np.unique(one.scenario[failing])
        },
        breakdown=breakdown(one, frame, firsts[str(HEADLINE_BUDGET)]),
        curves=threshold_curves(one),
        outcomes=one,
        baseline=frame,
        alarms=tuple(in_order),
    )


def _text(estimate: Sequence[Any]) -> str:
    return interval_text(*estimate[:3])


def _first_alarms(one: Outcomes, threshold: float) -> np.ndarray:
    """First alarm of each run where a score above the threshold is one; a crash on a failing run is a miss."""
    if math.isnan(threshold):
        return np.full(len(one), np.inf)
    first = first_above(one.steps, one.scores, threshold)
    missed = one.crashed & np.isin(one.kind, FAILURES) & (first >= one.onset)
    return np.where(missed, np.inf, first)


def _first_from(edges: np.ndarray, onset: float) -> float:
    later = edges[edges >= onset]
    return float(later[0]) if len(later) else math.inf


def _recall(one: Outcomes, frame: Baseline, first: np.ndarray, threshold: float) -> Recall:
    value = frame.bootstrap.mean(in_time(first, one.onset, one.no_return), one.failing)
    return Recall(*value, threshold, false_stop(first[one.healthy]), false_stop(first[one.look_alike]))


def _delay(one: Outcomes, frame: Baseline, origin: np.ndarray) -> dict[str, Any]:
    failing = one.failing
    first, onset, no_return, start = one.first[failing], one.onset[failing], one.no_return[failing], origin[failing]
    time, event = delay.events(first, onset, no_return, start)
    incidence = {
        kind.name.lower(): dict(zip(("steps", "share"), delay.cumulative_incidence(time, event, kind), strict=True))
        for kind in delay.Event
    }
    steps, share = np.zeros(len(one)), np.zeros(len(one))
    steps[failing], share[failing] = delay.restricted_delay(first, onset, no_return, start)
    share_detected = np.zeros((len(one), INSTANTS))
    instants = np.unique(np.linspace(0.0, time.max(initial=0.0), INSTANTS).round())
    share_detected[np.flatnonzero(failing), : len(instants)] = ((event == delay.Event.DETECTED)[:, None]) & (
        time[:, None] <= instants
    )
    band = frame.bootstrap.means(share_detected[:, : len(instants)], failing)
    return {
        "detected_by": {"steps": instants, "value": band[0], "low": band[1], "high": band[2]},
        "restricted_mean_steps": frame.bootstrap.mean(steps, failing),
        "restricted_mean_share": frame.bootstrap.mean(share, failing),
        "incidence": incidence,
    }


def _diagnosis(one: Outcomes, frame: Baseline, found: np.ndarray, sets: Sets) -> dict[str, Any]:
    failing = one.failing
    families = diagnosis.by_family(one.named, frame.family_of)
    facts: dict[str, Any] = {}
    for level, truth, named, unseen in (
        ("cause", one.cause, one.named, frame.unseen),
        ("family", one.family, families, frozenset[str]()),
    ):
        facts[level] = {
            str(k): {
                "macro": frame.bootstrap.macro(diagnosis.diagnosed(found, truth, named, k, unseen), truth, failing),
                "chance": diagnosis.chance(truth[failing], k),
                "majority_prior": diagnosis.majority_prior(truth[failing], k),
            }
            for k in TOP
        }
        answers = [answer for answer, positive in zip(named, failing, strict=True) if positive]
        facts[level]["confusion"] = diagnosis.confusion(found[failing], truth[failing], answers)
    facts["cause_within_set"] = {
        str(k): {
            "macro": frame.bootstrap.macro(
                diagnosis.diagnosed(found, one.cause, one.named, k, frame.unseen, sets), one.cause, failing
            ),
            "chance": diagnosis.chance(one.cause[failing], k, sets),
        }
        for k in TOP
    }
    return facts


def _skill(one: Outcomes, frame: Baseline, cost: str) -> dict[float, Estimate]:
    failing, negative = one.failing, one.negative
    if not (failing.any() and negative.any()):
        return dict.fromkeys(PREVALENCES, Estimate(math.nan, math.nan, math.nan))
    labels = skill_runs(one)
    gain, loss = np.zeros(len(one)), np.zeros(len(one))
    gain[failing] = skill.gains(one.first[failing], labels, cost)
    loss[negative] = skill.losses(one.first[negative], labels.healthy_last, cost)
    gains, losses = frame.expectations(gain, loss)
    found = {}
    for prevalence in PREVALENCES:
        blind = frame.blind[cost, prevalence]
        value = skill.utility(gain[failing].mean(), loss[negative].mean(), prevalence)
        samples = skill.skill(np.asarray(skill.utility(gains, losses, prevalence)), blind.samples, blind.ceilings)
        exact = skill.skill(np.array([value]), np.array([blind.value]), np.array([blind.ceiling]))
        found[prevalence] = Estimate(float(exact[0]), *frame.bootstrap.interval(samples))
    return found


def _counts(everything: Outcomes, one: Outcomes) -> dict[str, int]:
    return {
        "runs": len(everything),
        "measured": len(one),
        "failing": int(one.failing.sum()),
        "never_visible": int(one.never_visible.sum()),
        "lost_before_visible": int((one.failing & (one.no_return <= one.visible)).sum()),
        "no_return_measured": int((one.failing & one.return_measured).sum()),
        "healthy": int(one.healthy.sum()),
        "look_alike": int(one.look_alike.sum()),
        "latent": int((one.kind == RunKind.LATENT.value).sum()),
        "cured": int((one.kind == RunKind.CURED.value).sum()),
        "calibration_healthy": int(everything.calibration.sum()),
        "crashed": int(everything.crashed.sum()),
    }


def _notes(one: Outcomes, calibration: Outcomes) -> list[str]:
    notes = []
    guessed = int((one.failing & ~one.return_measured).sum())
    if guessed:
        notes.append(f"the point of no return was not measured for {guessed} failing runs: there p = T")
    if one.never_visible.any():
        notes.append(f"{int(one.never_visible.sum())} failing runs never become visible and are left out")
    not_shown = int((one.kind == RunKind.NOT_SHOWN.value).sum())
    if not_shown:
        notes.append(f"{not_shown} runs whose fault is not shown count neither as failing nor as healthy")
    if not one.failing.any():
        notes.append("no failing run with a visible step: recall, delay, lead, diagnosis and skill are undefined")
    clusters = len(np.unique(one.cluster[one.failing]))
    if 0 < clusters < CLUSTERS:
        notes.append(
            f"intervals of failing runs rest on {clusters} twin sets; under {CLUSTERS} they are too narrow, and of no "
            "width where all runs or none are found"
        )
    for budget, needed in CALIBRATION_RUNS.items():
        if len(calibration) < needed:
            notes.append(
                f"a budget of {budget:.0%} needs {needed} healthy calibration runs; here are {len(calibration)}"
            )
    return notes


def _failures(replayed: Mapping[str, Alarms]) -> list[str]:
    """A note for each kind of failure, with the first run that ended so and what was printed last."""
    notes = []
    for kind in FAILURES_OF_A_DETECTOR:
        failed = [alarms for _, alarms in sorted(replayed.items()) if alarms.outcome == kind]
        if failed:
            first = failed[0]
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
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value

"""Detectors on labelled real runs: what can be measured, and what is not defined.

No fault was injected into these runs, so that onset s, first visible step v and point of no return p are
not known, and with them what the specification builds on them. A label gives the step f at which someone saw
the failure. The true onset lies at f or before it: an alarm at or after f found the failure, one before f may
be early or false, which cannot be decided; the two are counted separately.

A run that logs none of the signals that a detector reads is left out of its score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainwreck.evaluation.constants import RATE_STEPS, SCORING_VERSION, TOP
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import BY_NAME
from trainwreck.evaluation.detectors.registry import builtin_causes
from trainwreck.evaluation.intervals import poisson_interval
from trainwreck.evaluation.logs.labels import FAILED, HEALTHY, UNKNOWN
from trainwreck.evaluation.logs.real_runs.estimates import Clusters
from trainwreck.evaluation.logs.real_runs.runs import RealRun
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.alarms import OK
from trainwreck.evaluation.replay.replay import about
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.unlabelled import alarms_of, opened
from trainwreck.evaluation.scoring.metrics.bootstrap import NOTHING, SMALL_STRATUM, Estimate
from trainwreck.evaluation.scoring.scorecard import plain

NOT_DEFINED = {
    "in-time recall": "needs the onset and the point of no return",
    "recall at a budget of false stops": "needs healthy runs apart, to freeze a threshold on",
    "lead": "needs the first visible step and the point of no return",
    "W*": "needs the first visible step, the planned length and what a policy that never looks would save",
}


@dataclass(frozen=True)
class RealScore:
    """Everything measured of one detector on labelled real runs.

    Shares are given by run and by cluster. false_stop: of healthy runs, any alarm. found, early: of failed runs, the
    first alarm at or after the labelled step, before it. found_again: some new alarm at or after it, whatever
    came before (the monitor protocol). delay: steps from the labelled step to the first alarm, where it
    is not before it; a miss counts to the end of the log. clusters, runs: one dict each.
    """

    detector: str
    rule: str
    counts: dict[str, int]
    false_stop: dict[str, Estimate]
    false_alarms: Estimate  # per 10,000 steps of healthy runs
    found: dict[str, Estimate]
    early: dict[str, Estimate]
    found_again: dict[str, Estimate]
    delay: Estimate
    diagnosis: dict[str, Estimate] | None
    not_defined: dict[str, str]
    notes: tuple[str, ...]
    update_us: float
    crashes: tuple[str, ...]
    clusters: tuple[dict[str, Any], ...]
    runs: tuple[dict[str, Any], ...]
    scoring_version: int = SCORING_VERSION

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe; None for what is not defined."""
        return {name: plain(getattr(self, name)) for name in self.__dataclass_fields__}


def score_real(
    dataset: DataSet,
    runs: Sequence[RealRun],
    detectors: Sequence[str],
    tick: Tick | None = None,
    limits: Limits | None = None,
) -> list[RealScore]:
    """A score for each detector. runs: of `labelled`. limits: for those with a process of their own."""
    with opened(detectors, limits) as found:
        entries = alarms_of(dataset, found, tick)
        facts = {name: about(detector) for name, detector in found.items()}
    alarms: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in detectors}
    for entry in entries:
        alarms[entry["detector"]][entry["run_id"]] = entry
    return [
        real_score(name, str(facts[name].get("rule", "")), runs, alarms[name], tuple(facts[name].get("signals", ())))
        for name in alarms
    ]


def real_score(
    detector: str,
    rule: str,
    runs: Sequence[RealRun],
    entries: Mapping[str, Mapping[str, Any]],
    reads: Sequence[str] = (),
) -> RealScore:
    """The score of a detector from its alarms on every run. entries: run_id to an entry of `alarms_on`.

    reads: the signals that it declares to read; any other word among them means all.
    """
    clusters = Clusters([run.cluster for run in runs])
    of = [entries[run.run_id] for run in runs]
    outcome = np.array([run.outcome for run in runs])
    sees = np.array([sees_any(run, reads) for run in runs], bool)
    healthy, failed = (outcome == HEALTHY) & sees, (outcome == FAILED) & sees
    first = np.array([np.inf if one["first_alarm"] is None else one["first_alarm"] for one in of], np.float64)
    step = np.array([np.inf if run.failure_step is None else run.failure_step for run in runs], np.float64)
    last = np.array([run.last_step for run in runs], np.float64)
    steps = np.array([run.steps for run in runs], np.float64)
    alarms = np.array([len(one["edges"]) for one in of], np.float64)
    alarmed = np.isfinite(first)
    found, early = failed & alarmed & (first >= step), failed & (first < step)
    again = np.array([any(edge >= at for edge in one["edges"]) for one, at in zip(of, step, strict=True)], bool)
    after = failed & ~early
    delay = np.where(after, np.where(alarmed, first, last) - np.where(failed, step, 0.0), 0.0)
    return RealScore(
        detector=detector,
        rule=rule,
        counts={
            "runs": len(runs),
            "clusters": len(clusters.names),
            "healthy": int(healthy.sum()),
            "failed": int(failed.sum()),
            "unknown": int((outcome == UNKNOWN).sum()),
            "blind": int((np.isin(outcome, (HEALTHY, FAILED)) & ~sees).sum()),
            "alarmed_before": int(early.sum()),
        },
        false_stop=clusters.share(alarmed, healthy),
        false_alarms=_rate(clusters, alarms, steps, healthy),
        found=clusters.share(found, failed),
        early=clusters.share(early, failed),
        found_again=clusters.share(again, failed),
        delay=clusters.mean(delay, after),
        diagnosis=_diagnosis(runs, of, found, clusters, failed),
        not_defined=NOT_DEFINED | _undiagnosed(runs),
        notes=_notes(runs, failed, sees, reads),
        update_us=_update_us(of),
        crashes=tuple(f"{run.name}: {one['status']}" for run, one in zip(runs, of, strict=True) if one["status"] != OK),
        clusters=tuple(_by_cluster(clusters, healthy, failed, alarmed, found, early, outcome == UNKNOWN)),
        runs=tuple(
            {
                "run_id": run.run_id, "name": run.name, "cluster": run.cluster, "outcome": run.outcome,
                "failure_step": run.failure_step, "cause": run.cause, "last_step": run.last_step,
                "first_alarm": one["first_alarm"], "alarms": one["edges"], "causes": one["causes"],
                "status": one["status"],
            }
            for run, one in zip(runs, of, strict=True)
        ),
    )  # fmt: skip


def sees_any(run: RealRun, reads: Sequence[str]) -> bool:
    """Whether a run logs anything that a detector reads."""
    known = [name for name in reads if name in BY_NAME]
    return len(known) < len(reads) or not reads or any(name in run.signals for name in known)


def _rate(clusters: Clusters, alarms: np.ndarray, steps: np.ndarray, healthy: np.ndarray) -> Estimate:
    """New alarms per 10,000 steps of healthy runs. Where there are none, no resample differs: the exact interval."""
    if not healthy.any():
        return NOTHING
    if not alarms[healthy].any():
        return Estimate(0.0, 0.0, poisson_interval(0)[1] * RATE_STEPS / float(steps[healthy].sum()))
    return clusters.ratio(np.where(healthy, alarms, 0.0) * RATE_STEPS, np.where(healthy, steps, 0.0))


def _diagnosed(run: RealRun) -> bool:
    """Whether the labelled cause is one that a detector can name: most are free text."""
    return run.outcome == FAILED and run.cause in builtin_causes()


def _diagnosis(
    runs: Sequence[RealRun], of: Sequence[Mapping[str, Any]], found: np.ndarray, clusters: Clusters, failed: np.ndarray
) -> dict[str, Estimate] | None:
    known = failed & np.array([_diagnosed(run) for run in runs], bool)
    if not known.any():
        return None
    named = [[run.cause in one["causes"][:k] for run, one in zip(runs, of, strict=True)] for k in TOP]
    return {
        str(k): clusters.share(found & np.array(right, bool), known)["run"] for k, right in zip(TOP, named, strict=True)
    }


def _undiagnosed(runs: Sequence[RealRun]) -> dict[str, str]:
    if any(_diagnosed(run) for run in runs):
        return {}
    return {"diagnosis": "no failed run has a cause by the name of a scenario (trainwreck list)"}


def _notes(runs: Sequence[RealRun], failed: np.ndarray, sees: np.ndarray, reads: Sequence[str]) -> tuple[str, ...]:
    chosen = [run for run, is_failed in zip(runs, failed, strict=True) if is_failed]
    clusters = {run.cluster for run in chosen}
    notes = []
    blind = sum(run.outcome != UNKNOWN and not seen for run, seen in zip(runs, sees, strict=True))
    if blind:
        notes.append(f"{blind} of {len(runs)} runs log nothing of {', '.join(reads)}, and are left out")
    if chosen and len(clusters) < SMALL_STRATUM:
        notes.append(f"{len(chosen)} failed runs in {len(clusters)} clusters can't rank detectors")
    loose = sum(not _diagnosed(run) for run in chosen)
    if 0 < loose < len(chosen):
        notes.append(f"{loose} failed runs have a cause in other words, and no part in diagnosis")
    return tuple(notes)


def _update_us(of: Sequence[Mapping[str, Any]]) -> float:
    rows = sum(one["rows"] for one in of)
    return float(sum(one["update_us"] * one["rows"] for one in of) / rows) if rows else float("nan")


def _by_cluster(
    clusters: Clusters,
    healthy: np.ndarray,
    failed: np.ndarray,
    alarmed: np.ndarray,
    found: np.ndarray,
    early: np.ndarray,
    unknown: np.ndarray,
) -> list[dict[str, Any]]:
    columns = {
        "healthy": healthy, "stopped": healthy & alarmed, "failed": failed, "found": found, "early": early,
        "unknown": unknown,
    }  # fmt: skip
    many = len(clusters.names)
    counted = {name: np.bincount(clusters.index[mask], minlength=many) for name, mask in columns.items()}
    return [
        {"cluster": str(name), **{column: int(counted[column][i]) for column in columns}}
        for i, name in enumerate(clusters.names)
    ]

"""Detectors side by side on labelled real runs, at matched shares of healthy runs stopped.

In time, strict     the first alarm comes at the labelled step f or later, and before half of what the log has left is
                    over: f <= a <= f + (L - f) / 2, L the last step. A log that ends at f has the row of f alone.
In time, lenient    it comes in the second half of what the log has before f, or any time after: a >= f - (f - F) / 2,
                    F the first step. The label is where a rule on the loss fired or someone looked; what led there
                    began earlier, by how much is not known.
Both                not in the first row of a log, with which nothing can be compared, unless its loss is not finite.

The first alarm ends a run (stop protocol): whatever comes after one that is too early counts for nothing. An entry that
says the same of every run therefore finds nothing at any budget, as its scores tie from the first row on.

All runs with an outcome count for every detector, also those that log nothing of what it reads: it misses them, and
stops none of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwreck.evaluation import short_forms
from trainwreck.evaluation.constants import BUDGETS, CLUSTERS, HEADLINE_BUDGET, LARGEST_STOPPED, SIGNIFICANCE
from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.detectors.registry import absent, builtin_detectors
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.columns import DEFAULT, FREE, OPERATING
from trainwreck.evaluation.leaderboard.stored_alarms import StoredAlarms
from trainwreck.evaluation.logs.labels import FAILED, HEALTHY, UNKNOWN
from trainwreck.evaluation.logs.real_runs.estimates import Clusters
from trainwreck.evaluation.logs.real_runs.replays import AnyDetector, Replays, replays
from trainwreck.evaluation.logs.real_runs.runs import RealRun, labelled
from trainwreck.evaluation.logs.real_runs.scores import sees_any
from trainwreck.evaluation.logs.real_runs.thresholds import HealthyRuns, expected, firsts_at, healthy_runs
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.scoring.metrics.significance import Permutation, tied_ranks
from trainwreck.evaluation.scoring.scorecard import plain

if TYPE_CHECKING:
    import pandas as pd

PROFILE = "log"  # what the log has, at its own rows
STRICT, LENIENT = "", "_lenient"
BY_CLUSTER, BY_RUN = "", "_by_run"
SHOWN = ("rank", "detector", f"recall_{HEADLINE_BUDGET}", f"recall_lenient_{HEADLINE_BUDGET}", "recall_default",
         f"stopped_{HEADLINE_BUDGET}", "stopped_default", "area")  # fmt: skip


@dataclass(frozen=True, repr=False)
class RealBoard:
    """The board of real runs. Use `real_board`.

    rows: one dict a detector, best first. detections: one dict a detector, of each failed run the chance that it is
    found in time, by operating point. peaks: one dict a detector, its largest score on each healthy run. counts: runs
    and clusters. notes: what a reader should know, entries that are missing among them.
    """

    rows: tuple[dict[str, Any], ...]
    detections: tuple[dict[str, Any], ...]
    peaks: tuple[dict[str, Any], ...]
    counts: dict[str, int]
    notes: tuple[str, ...]

    @cached_property
    def _table(self) -> "pd.DataFrame":
        import pandas as pd

        return pd.DataFrame(self.rows).astype({"rank": "Int64"})

    def to_frame(self) -> "pd.DataFrame":
        """One row a detector, best first (docs/logs.md has the columns)."""
        return self._table.copy()

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe, NaN as None: `rows` as in `to_frame`, `counts` and `notes`."""
        return {"rows": [plain(row) for row in self.rows], "counts": self.counts, "notes": list(self.notes)}

    def __repr__(self) -> str:
        return self._table[list(SHOWN)].to_string(index=False, max_rows=20, float_format="{:.3f}".format)

    def _repr_html_(self) -> str:
        return short_forms.table(self._table[list(SHOWN)])


def real_board(
    data: DataSet | str | Path,
    labels: str | Path,
    detectors: Sequence[AnyDetector] | None = None,
    *,
    workers: int = 1,
    limits: Limits | None = None,
    tick: Tick | None = None,
) -> RealBoard:
    """Detectors, by default every built-in one, on imported runs with labels that people gave (docs/logs.md).

    InputError for labels that contradict the logs, and without a failed or a healthy run.
    """
    dataset = load(data)
    runs = [run for run in labelled(dataset, Path(labels)) if run.outcome != UNKNOWN]
    for outcome in (FAILED, HEALTHY):
        if not any(run.outcome == outcome for run in runs):
            raise InputError(f"labels: {str(labels)!r} has no {outcome} run; allowed: failed and healthy ones")
    chosen = list(builtin_detectors()) if detectors is None else list(detectors)
    if not chosen:
        raise InputError("detectors: none is not allowed; allowed: one or more")
    done = replays(dataset, [run.run_id for run in runs], chosen, workers=workers, limits=limits, tick=tick)
    return board_of(runs, done, [] if detectors is not None else [line for line in [absent()] if line])


def board_of(runs: Sequence[RealRun], done: Replays, notes: Sequence[str] = ()) -> RealBoard:
    """The board of what detectors said of runs that are failed or healthy."""
    labels = Labels(runs)
    scores = {name: _Scores(labels, of) for name, of in done.said.items()}
    rows = {
        name: {"profile": PROFILE, "rank": None, "detector": name}
        | scored.row()
        | {
            "blind": sum(not sees_any(run, tuple(done.about[name].get("signals", ()))) for run in runs),
            "crashed": sum(one.crashed for one in done.said[name]),
            "update_us": _update_us(done.said[name]),
        }
        for name, scored in scores.items()
    }
    order = sorted(rows, key=lambda name: (*_best_first(rows[name]), name))
    for name, rank in zip(order, _ranks(labels, [scores[name] for name in order]), strict=True):
        rows[name]["rank"] = rank
    return RealBoard(
        rows=tuple(rows[name] for name in order),
        detections=tuple(scores[name].detections(name) for name in order),
        peaks=tuple(scores[name].peaks(name) for name in order),
        counts=labels.counts,
        notes=(*notes, *labels.notes()),
    )


class Labels:
    """Runs with an outcome, as arrays over them; windows has first and last step of an alarm that is in time."""

    def __init__(self, runs: Sequence[RealRun]) -> None:
        self.runs = runs
        self.clusters = Clusters([run.cluster for run in runs])
        self.failed = np.array([run.outcome == FAILED for run in runs], bool)
        self.healthy = ~self.failed
        first, last, evidence = (
            np.array([getattr(run, name) for run in runs], np.float64)
            for name in ("first_step", "last_step", "first_evidence")
        )
        step = np.array([np.nan if run.failure_step is None else run.failure_step for run in runs], np.float64)
        step = np.where(self.failed, step, np.inf)
        self.windows = {
            STRICT: (np.maximum(step, evidence), (step + last) / 2.0),
            LENIENT: (np.maximum((first + step) / 2.0, evidence), last),
        }
        by_run = self.failed.astype(float), self.healthy.astype(float)
        by_cluster = self.clusters.evenly(self.failed), self.clusters.evenly(self.healthy)
        self.weights = {BY_CLUSTER: by_cluster, BY_RUN: by_run}

    def in_time(self, first: np.ndarray, window: str) -> np.ndarray:
        """Whether first alarms are in time. first: [T, N], infinite without one. [T, N] bool, False of healthy runs"""
        low, high = self.windows[window]
        return np.asarray((first >= low) & (first <= high) & self.failed)

    @property
    def counts(self) -> dict[str, int]:
        """Runs, and clusters that have such a run."""
        among = {"failed": self.failed, "healthy": self.healthy}
        index = self.clusters.index
        return {name: int(mask.sum()) for name, mask in among.items()} | {
            f"clusters_{name}": len(np.unique(index[mask])) for name, mask in among.items()
        }

    def notes(self) -> list[str]:
        """What the number of clusters does not allow."""
        found, counts = [], self.counts
        if counts["clusters_failed"] < CLUSTERS:
            found.append(f"{counts['failed']} failed runs in {counts['clusters_failed']} clusters can't rank detectors")
        most = counts["clusters_healthy"]
        if most < 2:
            found.append("healthy runs in one cluster alone leave none to set its threshold on: no recall at a budget")
        for budget in BUDGETS:
            if 2 <= most < 1.0 / budget:
                found.append(
                    f"{most} clusters have healthy runs: with so few no recall at {budget:.0%} is above "
                    f"{budget * (most + 1):.2f}"
                )
        return found


class _Scores:
    """A detector on all runs. found, stopped: by operating point, found by window too; [1 + S, N] or [1, N]."""

    def __init__(self, labels: Labels, of: Sequence[StoredAlarms]) -> None:
        self.labels, self.of = labels, of
        self.crashed = np.array([one.crashed for one in of], bool)
        on = labels.healthy
        self.calibration: HealthyRuns = healthy_runs(
            [one for one, chosen in zip(of, on, strict=True) if chosen],
            labels.clusters.index[on],
            labels.clusters.draws[:, on],
        )
        own = np.array([[np.inf if one.first_alarm is None else one.first_alarm for one in of]])
        self.found = {(DEFAULT, window): self._hits(own, window) * 1.0 for window in labels.windows}
        self.stopped = {DEFAULT: np.isfinite(own) * 1.0}
        for budget in BUDGETS:
            self._at(budget)
        over = self.calibration.area(LARGEST_STOPPED)
        firsts = firsts_at(of, over)
        for window in labels.windows:
            self.found[FREE, window] = expected(self._hits(firsts, window), over)

    def _hits(self, firsts: np.ndarray, window: str, members: np.ndarray | slice = slice(None)) -> np.ndarray:
        """In time, and not by a detector that failed on the run. firsts: [T, M] of the members. [T, M] bool"""
        every = np.full((len(firsts), len(self.of)), np.inf)
        every[:, members] = firsts
        return np.asarray((self.labels.in_time(every, window) & ~self.crashed)[:, members])

    def _at(self, budget: float) -> None:
        """Each cluster at the threshold of the others; one threshold serves all clusters without a healthy run."""
        index, point = self.labels.clusters.index, str(budget)
        shape = 1 + len(self.labels.clusters.draws), len(self.of)
        self.stopped[point] = np.zeros(shape)
        for window in self.labels.windows:
            self.found[point, window] = np.zeros(shape)
        with_healthy = np.unique(self.calibration.cluster)
        without = ~np.isin(index, with_healthy)
        parts = [(int(one), np.flatnonzero(index == one)) for one in with_healthy]
        parts += [(-1, np.flatnonzero(without))] if without.any() else []
        for cluster, members in parts:
            threshold = self.calibration.threshold(budget, cluster)
            firsts = firsts_at([self.of[i] for i in members.tolist()], threshold)
            self.stopped[point][:, members] = expected(np.isfinite(firsts), threshold)
            for window in self.labels.windows:
                self.found[point, window][:, members] = expected(self._hits(firsts, window, members), threshold)

    def row(self) -> dict[str, Any]:
        """Every score with its interval."""
        row: dict[str, Any] = {}
        for by, (failed, healthy) in self.labels.weights.items():
            for point in OPERATING:
                for window in self.labels.windows:
                    row |= self._estimate(f"recall{window}{by}_{point}", self.found[point, window], failed)
                row |= self._estimate(f"stopped{by}_{point}", self.stopped[point], healthy)
            for window in self.labels.windows:
                row |= self._estimate(f"area{window}{by}", self.found[FREE, window], failed)
        return row

    def _estimate(self, name: str, values: np.ndarray, weights: np.ndarray) -> dict[str, float]:
        value, low, high = self.labels.clusters.expected(values, weights)
        return {name: value, f"{name}_low": low, f"{name}_high": high}

    def parts(self) -> np.ndarray:
        """Each run's part of the headline. [N]"""
        weights = self.labels.weights[BY_CLUSTER][0]
        return np.asarray(np.nan_to_num(self.found[str(HEADLINE_BUDGET), STRICT][0]) * weights / weights.sum())

    def peaks(self, name: str) -> dict[str, Any]:
        """Its largest score on each healthy run, -inf without one, by column: what other thresholds would stop."""
        runs = [run for run, healthy in zip(self.labels.runs, self.labels.healthy, strict=True) if healthy]
        return {
            "profile": PROFILE,
            "detector": name,
            "run_id": [run.run_id for run in runs],
            "cluster": [run.cluster for run in runs],
            "peak": self.calibration.top.tolist(),
        }

    def detections(self, name: str) -> dict[str, Any]:
        """What `transfer` resamples, by column: of each failed run the chance that it is found."""
        on = self.labels.failed
        runs = [run for run, failed in zip(self.labels.runs, on, strict=True) if failed]
        return {
            "profile": PROFILE,
            "detector": name,
            "run_id": [run.run_id for run in runs],
            "cluster": [run.cluster for run in runs],
            "weight": self.labels.weights[BY_CLUSTER][0][on].tolist(),
            **{
                f"found{window}_{point}": plain(self.found[point, window][0, on])
                for point in OPERATING
                for window in self.labels.windows
            },
        }


def _best_first(row: Mapping[str, Any]) -> tuple[float, ...]:
    keys = (f"recall_{HEADLINE_BUDGET}", *(f"recall_{b}" for b in BUDGETS if b != HEADLINE_BUDGET), "area")
    return tuple(np.inf if np.isnan(row[key]) else -row[key] for key in keys)


def _ranks(labels: Labels, scores: Sequence[_Scores]) -> list[int]:
    """Shared by entries that a permutation test over clusters does not tell from the best of their group."""
    parts = [one.parts() for one in scores]
    test = Permutation(labels.clusters.index, np.zeros(len(labels.runs)))
    return tied_ranks(len(parts), lambda best, other: test.p_value(parts[best] - parts[other]), SIGNIFICANCE)


def _update_us(of: Sequence[StoredAlarms]) -> float:
    rows = sum(one.rows for one in of)
    return sum(one.update_us * one.rows for one in of) / rows if rows else float("nan")

"""Alarms of detectors on the runs shown: at their published defaults, and with thresholds frozen as on the leaderboard.

Thresholds are frozen once over the distinct calibration runs of all data sets given, at the leaderboard's headline
budget.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from trainwreck.evaluation.constants import CALIBRATION, HEADLINE_BUDGET
from trainwreck.evaluation.dataset.dataset import DataSet, load, telemetry_digest
from trainwreck.evaluation.dataset.schema import RunKind
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.rescore import alarm_files, check
from trainwreck.evaluation.leaderboard.run import known_causes
from trainwreck.evaluation.leaderboard.stored_alarms import StoredAlarms, reduced
from trainwreck.evaluation.pages.gallery.choose import Exhibit
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.alarms import OK
from trainwreck.evaluation.replay.replay import replay
from trainwreck.evaluation.replay.unlabelled import opened
from trainwreck.evaluation.scoring.metrics.recall import firsts_above, peak
from trainwreck.evaluation.scoring.metrics.thresholds import Peaks, within_budget

# One of each kind of rule, and none that was trained: `learned` may have seen the very seeds that are shown.
DETECTORS = (
    "nonfinite_loss",
    "loss_over_minimum",
    "grad_norm_zscore",
    "zclip",
    "olmo_stability",
    "wandb_zscore",
    "smdebug_rules",
    "playbook",
)
PIECE = 16  # runs that a process replays at a time

AlarmsOfRuns = dict[str, dict[str, StoredAlarms]]
"""Detector name, then run id, to its alarms."""


@dataclass(frozen=True)
class Marks:
    """thresholds: detector to its frozen threshold, NaN without calibration runs. calibration: number of these runs."""

    alarms: AlarmsOfRuns
    thresholds: Mapping[str, float]
    calibration: int

    def of(self, run_id: str) -> list[dict[str, object]]:
        """By detector: steps of new alarms at the default, the first one at the frozen threshold, and a failed status.

        Empty for a run without stored alarms: runs that are not scored need not have any.
        """
        rows = []
        for name, by_run in self.alarms.items():
            if run_id not in by_run:
                continue
            one = by_run[run_id]
            first = float(firsts_above([one.steps], [one.scores], np.array([self.thresholds[name]]))[0, 0])
            rows.append(
                {
                    "detector": name,
                    "default": one.edges.tolist(),
                    "frozen": int(first) if np.isfinite(first) else None,
                    "causes": list(one.causes),
                    "failed": "" if one.status == OK else one.status,
                }
            )
        return rows


def replayed(
    datasets: Sequence[DataSet],
    shown: Iterable[Exhibit],
    detectors: Sequence[str],
    tick: Tick | None = None,
    workers: int = 1,
) -> Marks:
    """Replay the runs shown and the calibration runs. InputError for an unknown detector, or one named twice."""
    twice = sorted({name for name in detectors if list(detectors).count(name) > 1})
    if twice:
        raise InputError(f"detector: {twice[0]!r} is named twice; allowed: each name once")
    with opened(detectors):
        pass  # a wrong name is reported before any work
    wanted: dict[int, list[str]] = {}
    known: set[str] = set()
    calibration = _calibration(datasets)
    to_show = {exhibit.faulty["run_id"]: exhibit.place for exhibit in shown}
    for run_id, place in (calibration | to_show).items():
        wanted.setdefault(place, []).append(run_id)
        known |= known_causes(datasets[place])
    pieces = [(place, piece) for place, run_ids in wanted.items() for piece in _pieces(run_ids)]
    pool = Parallel(n_jobs=workers, return_as="generator")
    replies = pool(
        delayed(_replay)(Path.cwd(), datasets[place].path, piece, list(detectors), frozenset(known))
        for place, piece in pieces
    )
    alarms: AlarmsOfRuns = {name: {} for name in detectors}
    done, every = 0, sum(len(piece) for _, piece in pieces)
    for reply in replies:
        for name, by_run in reply.items():
            alarms[name] |= by_run
        done += len(next(iter(reply.values()), {}))
        if tick:
            tick(done, every, "alarms")
    return _frozen(alarms, list(calibration))


def stored(datasets: Sequence[DataSet], shown: Iterable[Exhibit], paths: Sequence[Path]) -> Marks:
    """The same from stored alarms of the full profile, blind, that `leaderboard --alarms` wrote.

    paths: files or folders, one a data set that has runs shown. InputError for alarms of other telemetry, and where
    a data set lacks a detector that another one has.
    """
    places = {telemetry_digest(dataset): place for place, dataset in enumerate(datasets)}
    alarms: dict[int, AlarmsOfRuns] = {}
    for path in paths:
        for file in alarm_files([path]):
            if file.telemetry not in places:
                raise InputError(f"{file.path}: made on other telemetry; allowed: alarms on a data set of the gallery")
            place = places[file.telemetry]
            check(file, datasets[place].runs, known_causes(datasets[place]))
            if (file.profile, file.track) == ("full", "blind"):
                alarms.setdefault(place, {})[file.detector] = {one.run_id: one for one in file.alarms}
    names = list(dict.fromkeys(name for one in alarms.values() for name in one))
    needed = {exhibit.place for exhibit in shown} | set(_calibration(datasets).values())
    for place in sorted(needed):
        lacking = [name for name in names if name not in alarms.get(place, {})]
        if lacking or place not in alarms:
            what = f"of {', '.join(lacking[:3])} " if lacking else ""
            raise InputError(f"alarms: none {what}on {datasets[place].path}; allowed: the same detectors on each")
    merged: AlarmsOfRuns = {name: {} for name in names}
    for one in alarms.values():
        for name, by_run in one.items():
            merged[name] |= by_run
    return _frozen(merged, list(_calibration(datasets)))


def _calibration(datasets: Sequence[DataSet]) -> dict[str, int]:
    """Healthy calibration runs to the first data set that has each: several proofs on one base share theirs."""
    found: dict[str, int] = {}
    for place, dataset in enumerate(datasets):
        healthy = dataset.runs["kind"] == RunKind.HEALTHY.value
        for run_id in dataset.runs.index[healthy & (dataset.runs["split"] == CALIBRATION)]:
            found.setdefault(str(run_id), place)
    return found


def _frozen(alarms: AlarmsOfRuns, calibration: Sequence[str]) -> Marks:
    """With the likeliest of the thresholds that keep the budget."""
    thresholds = {}
    same = np.ones(len(calibration))
    for name, by_run in alarms.items():
        crashed = np.array([by_run[run_id].crashed for run_id in calibration], dtype=bool)
        top = peak([by_run[run_id].scores for run_id in calibration])
        floor = min((float(by_run[run_id].scores[0]) for run_id in calibration if by_run[run_id].rows), default=-np.inf)
        found = within_budget(Peaks(top, same, same[None], crashed, floor), HEADLINE_BUDGET)
        thresholds[name] = float(found.levels[found.chances.argmax()]) if len(calibration) else np.nan
    return Marks(alarms, thresholds, len(calibration))


def _pieces(run_ids: Sequence[str]) -> Iterable[list[str]]:
    left = iter(run_ids)
    while piece := list(islice(left, PIECE)):
        yield piece


def _replay(
    here: Path, folder: Path, run_ids: Sequence[str], detectors: Sequence[str], known: frozenset[str]
) -> AlarmsOfRuns:
    """Some runs of a data set through every detector, perhaps in another process. here: where names of files begin."""
    dataset = load(folder, verify=False)  # which was verified before
    with contextlib.chdir(here), opened(detectors) as found:
        alarms: AlarmsOfRuns = {name: {} for name in detectors}
        for run_id in run_ids:
            trace = dataset.trace(run_id)
            for name, detector in found.items():
                alarms[name][run_id] = reduced(replay(detector, trace, known=known))
        return alarms

"""Stored alarms to scorecards: labels are all that it takes, and no telemetry.

Whoever hands in alarms chose every number in the file, so each is checked against what the runs allow: steps that the
profile shows, and rows that a detector which did not fail has seen to the end.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pandas as pd

from trainwreck.evaluation.constants import LOG_EVERY, REFRACTORY, UNKNOWN
from trainwreck.evaluation.dataset.dataset import DataSet, telemetry_digest
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.leaderboard.run import BLIND, TRACKS, known_causes
from trainwreck.evaluation.leaderboard.stored_alarms import OLD, AlarmFile, StoredAlarms, read_alarms, write_alarms
from trainwreck.evaluation.replay.alarms import OK
from trainwreck.evaluation.replay.oracles import ABOUT_ORACLES, ORACLES, oracle_alarms
from trainwreck.evaluation.replay.profiles import ALL_PROFILES, steps_allowed
from trainwreck.evaluation.replay.unlabelled import refuse_imported
from trainwreck.evaluation.scoring.reference import Baseline, baseline
from trainwreck.evaluation.scoring.run_labels import scored
from trainwreck.evaluation.scoring.scorecard import Scorecard, measure, plain

SUFFIX = ".parquet"
OF_OLD = (
    "alarms stored by scoring version 1: a non-finite loss ties with other largest scores, and causes are known at the "
    "published default alone; replay the detector for the rest"
)


def keep_alarms(folder: Path, dataset: DataSet, cards: Iterable[Scorecard], k: int = LOG_EVERY) -> list[Path]:
    """Write the alarms of each card to FOLDER/DETECTOR-PROFILE-TRACK.parquet. Oracles, which know the label, have none.

    k: as the cards were made with.
    """
    return [path for card in cards if (path := keep_card(folder, dataset, card, k)) is not None]


def keep_card(folder: Path, dataset: DataSet, card: Scorecard, k: int = LOG_EVERY) -> Path | None:
    """`keep_alarms` of one card; where its alarms are then, None for an oracle."""
    if card.detector in ORACLES:
        return None
    path = folder / f"{file_name(card.detector)}-{card.profile}-{card.track}{SUFFIX}"
    write_alarms(
        path,
        card.alarms,
        detector=card.detector,
        profile=card.profile,
        track=card.track,
        k=k,
        telemetry=telemetry_digest(dataset),
        about=plain(card.about),
    )
    return path


def file_name(detector: str) -> str:
    """A detector's name in letters that a file's may have.

    >>> file_name("mine.py:Mine")
    'mine.py_Mine'
    """
    return "".join(letter if letter.isalnum() or letter in "._" else "_" for letter in detector)


def alarm_files(paths: Sequence[Path]) -> list[AlarmFile]:
    """The files themselves, and those that lie directly in folders, by name.

    InputError where there are none, and where two are of the same detector, profile and track.
    """
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not found:
            raise InputError(f"alarms: {str(path)!r} holds no {SUFFIX} file")
        files += found
    read: dict[tuple[str, str, str], AlarmFile] = {}
    for path in files:
        one = read_alarms(path)
        key = (one.detector, one.profile, one.track)
        if key in read:
            raise InputError(f"{path}: alarms of {', '.join(key)} are in {read[key].path} already")
        read[key] = one
    return list(read.values())


def rescore(dataset: DataSet, files: Sequence[AlarmFile], *, oracles: bool = False) -> list[Scorecard]:
    """A scorecard a file, by profile, equal to the one that the replay gave; with `oracles` theirs too.

    dataset: `load` or `load_labels`. InputError for alarms of other telemetry, and in one line for the first thing
    in a file that can't be: see `check`.
    """
    refuse_imported(dataset, "scored")
    frames = {profile: baseline(dataset.runs, profile) for profile in {file.profile for file in files}}
    telemetry, causes = telemetry_digest(dataset), known_causes(dataset)
    for file in files:
        if file.telemetry != telemetry:
            raise InputError(
                f"{file.path}: made on other telemetry ({file.telemetry[:12]}); "
                f"allowed: alarms on {dataset.path} ({telemetry[:12]})"
            )
        check(file, dataset.runs, causes)
    order = {profile: place for place, profile in enumerate(ALL_PROFILES)}
    cards = [_card(file, frames[file.profile]) for file in sorted(files, key=lambda file: order[file.profile])]
    if oracles:
        for profile in dict.fromkeys(card.profile for card in cards):
            cards += [_oracle(name, profile, dataset, frames[profile]) for name in ORACLES]
    return cards


def _card(file: AlarmFile, frame: Baseline) -> Scorecard:
    alarms = {one.run_id: one for one in file.alarms}
    card = measure(file.detector, file.track, file.about, alarms, frame)
    return replace(card, notes=(*card.notes, OF_OLD)) if file.version == OLD else card


def _oracle(name: str, profile: str, dataset: DataSet, frame: Baseline) -> Scorecard:
    alarms = {run["run_id"]: oracle_alarms(name, run, profile) for _, run in dataset.runs.iterrows()}
    return measure(name, BLIND, ABOUT_ORACLES, alarms, frame)


def check(file: AlarmFile, runs: pd.DataFrame, causes: Iterable[str]) -> None:
    """InputError, in one line with file and run, for alarms that no replay of these runs can have given.

    runs: the runs table. causes: those that may be named besides "unknown".
    """
    if file.profile not in ALL_PROFILES:
        raise InputError(f"{file.path}: {unknown('profile', file.profile, ALL_PROFILES)}")
    if file.track not in TRACKS:
        raise InputError(f"{file.path}: {unknown('track', file.track, TRACKS)}")
    if file.k != LOG_EVERY:
        raise InputError(f"{file.path}: k: {file.k} is not allowed; allowed: {LOG_EVERY}")
    if file.detector in ORACLES:
        raise InputError(f"{file.path}: detector: {file.detector!r} knows the label and has no alarms of its own")
    _check_runs(file.path, [one.run_id for one in file.alarms], runs)
    last = dict(zip(runs["run_id"], runs["last_step"], strict=True))
    allowed = {*causes, UNKNOWN}
    for one in file.alarms:
        end = int(last[one.run_id])
        shown, each = steps_allowed(one.run_id, file.profile, end, file.k)
        complaint = _wrong_steps(one, shown, each, end) or _wrong_rest(one, shown, each, allowed)
        if complaint:
            raise InputError(f"{file.path}: run {one.run_id}: {complaint}")


def _check_runs(path: Path, replayed: Sequence[str], runs: pd.DataFrame) -> None:
    twice = sorted(run_id for run_id, count in Counter(replayed).items() if count > 1)
    needed = set(runs["run_id"][scored(runs)])
    missing, others = sorted(needed - set(replayed)), sorted(set(replayed) - set(runs["run_id"]))
    for names, what in ((others, "not of this data set"), (twice, "there twice"), (missing, "missing")):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise InputError(f"{path}: runs {what}: {', '.join(map(str, names[:3]))}{more}; allowed: each run once")


def _wrong_steps(one: StoredAlarms, shown: Sequence[int], each: bool, end: int) -> str:
    """What is wrong with the steps of a run's alarms and scores; empty if nothing is. shown, each: `steps_allowed`."""
    if not 0 <= one.rows <= len(shown):
        return f"rows: {one.rows} is not allowed; allowed: 0 to {len(shown)}, which is what the profile shows"
    if each and one.status == OK and one.rows != len(shown):
        return f"status ok after {one.rows} of {len(shown)} rows; allowed: ok where every row was judged"
    seen = shown[: one.rows] if each else shown[: bisect_right(shown, one.last_judged)]
    until = seen[-1] if seen else -1
    if one.last_judged != until or len(seen) < one.rows:
        return f"last_judged: {one.last_judged} is not allowed; allowed: {until}, the step of row {one.rows}"
    for what, steps, apart in (("alarm", one.edges.tolist(), REFRACTORY), ("score", one.steps.tolist(), 1)):
        for step in steps:
            if step < 0:
                return f"{what} at step {step}, before the run; allowed: 0 to {end}"
            if step > end:
                return f"{what} at step {step}, after the run's last step {end}"
            if step not in seen:
                return f"{what} at step {step}, of which it judged no row"
        if any(later - step < apart for step, later in pairwise(steps)):
            shown_steps = ", ".join(map(str, steps[:6])) + (" ..." if len(steps) > 6 else "")
            return f"{what} steps {shown_steps} are not allowed; allowed: ascending, {apart} or more apart"
    return ""


def _wrong_rest(one: StoredAlarms, shown: Sequence[int], each: bool, causes: set[str]) -> str:
    """What is wrong with a run's scores, causes and costs; empty if nothing is."""
    scores = one.scores.tolist()
    if len(one.steps) != len(scores):
        return f"{len(one.steps)} steps of scores and {len(scores)} scores"
    for score in scores:
        if math.isnan(score) or score == -math.inf:
            return f"score {score} is not allowed; allowed: numbers, and infinity at a loss that is not finite"
    if any(later <= score for score, later in pairwise(scores)):
        return "scores do not rise; allowed: the rows at which the largest score so far rises"
    if one.rows and (not scores or (each and one.steps[0] != shown[0])):
        return f"no score at step {shown[0]}, the first row; allowed: it is the first rise"
    for named in (one.causes, *(answer for _, answer in one.answers)):
        for cause in named:
            if cause not in causes:
                return str(unknown("causes", cause, sorted(causes)))
        if len(set(named)) != len(named):
            return f"causes: {', '.join(named)} names a cause twice"
    since = [step for step, _ in one.answers]
    if not set(since) <= set(one.steps.tolist()) or since != sorted(set(since)):
        return f"causes named at steps {', '.join(map(str, since[:6]))}; allowed: ascending, at which the score rises"
    if one.causes and not len(one.edges):
        return "causes without an alarm; allowed: what was named at the first alarm"
    if not one.status:
        return "status: '' is not allowed; allowed: ok, or why the detector failed"
    if not (math.isfinite(one.update_us) and one.update_us >= 0 and (one.state_bytes or 0) >= 0):
        return f"cost: {one.update_us} us and {one.state_bytes} bytes are not allowed; allowed: 0 and more"
    return ""

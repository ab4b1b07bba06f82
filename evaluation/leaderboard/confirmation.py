"""A submission's code run again: whether it raises the alarms of the claim, and its score on runs of private seeds.

The labels of a public data set are public, so a score on it is a claim: alarms can be written by hand, and a detector
can know the runs. On runs that its author has not seen neither helps. The record of a confirmation is a JSON file that
the maintainers of a board keep; it is bound to the submission by checksum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainwreck.evaluation.constants import CALIBRATION, HEADLINE_BUDGET, SCORING_VERSION, TUNING_SPLITS
from trainwreck.evaluation.dataset.dataset import DataSet, telemetry_digest
from trainwreck.evaluation.dataset.schema import FAILURES, RunKind
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import read_json, sha256
from trainwreck.evaluation.intervals import difference
from trainwreck.evaluation.leaderboard.entries import entry_name
from trainwreck.evaluation.leaderboard.rescore import rescore
from trainwreck.evaluation.leaderboard.run import Progress
from trainwreck.evaluation.leaderboard.stored_alarms import AlarmFile, StoredAlarms, reduced
from trainwreck.evaluation.leaderboard.submission import (
    BATCH,
    FILE,
    SUBMISSION,
    read_facts,
    read_submission,
    require_row_by_row,
    row_by_row,
)
from trainwreck.evaluation.replay.alarms import CONFINEMENT
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.unlabelled import refuse_imported
from trainwreck.evaluation.scoring.scorecard import Scorecard, plain

FORMAT = "trainwreck-confirmation"
VERSION = 1
REPRODUCED = 0.99  # share of runs with the alarms of the claim, from which on the code counts as the claim's
TOLERANCE = 1e-6  # relative, of scores: processors differ in the last bits of a sum
ROUNDING = 1e-12  # of a difference of shares

CLAIMED = "claimed"
CHANGED = "claimed, and changed since it was run again"
VERIFIED = "verified on private seeds"
NOT_REPRODUCED = "not reproduced"
LOWER = "lower on private seeds"
MORE_STOPS = "stops more healthy runs on private seeds"
VERDICTS = (VERIFIED, MORE_STOPS, LOWER, NOT_REPRODUCED)  # from good to bad

ENDS = ("value", "low", "high")
COLUMNS = {"value": "private_recall", "low": "private_recall_low", "high": "private_recall_high"}
NO_CLAIM: dict[str, Any] = {"claim": "", **dict.fromkeys(COLUMNS.values())}  # of an entry that is no submission


@dataclass(frozen=True)
class Record:
    """What a board takes from a record. submission: checksum; columns: of `claim_of`, by profile and track."""

    submission: str
    columns: dict[tuple[str, str], dict[str, Any]]


def confirm(
    submission: Path,
    detector: str,
    public: DataSet,
    private: Sequence[DataSet],
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The record of a submission whose code was run again, row by row: JSON-safe.

    submission: the folder. detector: its code, as `open_detector` takes it, under the name that it was submitted by.
    public: the data set of the claim. private: data sets with none of its measured runs.
    `entries` has for each profile and track: on how many of the public runs the alarms are those of the claim, bitwise
    (`equal`) and with scores within a relative tolerance (`close`); in-time recall at the headline budget and the share
    of healthy runs stopped there, of the claim and of each private data set; their differences, claim less private,
    with intervals; and a verdict. InputError for a submission, a detector or a data set that this can't be done with.
    """
    facts, files = read_facts(submission), read_submission(submission)
    require_row_by_row(files)
    if entry_name(detector) != facts["detector"]:
        raise InputError(
            f"detector: {entry_name(detector)!r} is not the submission's; allowed: the code of {facts['detector']!r}"
        )
    if not private:
        raise InputError("private: none given; allowed: one data set or more of private seeds")
    for data in (public, *private):
        _check_labels(data)
    for data in private:
        _check_private(data, public)
    claims = {(card.profile, card.track): card for card in rescore(public, files)}
    entries = []
    for track in dict.fromkeys(file.track for file in files):
        own = {file.profile: file for file in files if file.track == track}
        again = [row_by_row(data, detector, list(own), track, limits, progress) for data in (public, *private)]
        entries += [
            _entry(own[card.profile], claims[card.profile, track], card, others)
            for card, *others in zip(*again, strict=True)
        ]
    return {
        "format": FORMAT,
        "version": VERSION,
        "scoring_version": SCORING_VERSION,
        "name": facts["name"],
        "detector": facts["detector"],
        SUBMISSION: sha256(submission / FILE),
        "code_sha256": _code(detector),
        "limits": asdict(limits or Limits()) | {"batch": BATCH},
        "public": _described(public, public),
        "private": [_described(data, public) for data in private],
        "entries": entries,
        "verdict": max((entry["verdict"] for entry in entries), key=VERDICTS.index),
    }


def read_records(paths: Sequence[Path]) -> dict[str, Record]:
    """Records by name of the submission. paths: files, and folders of them.

    InputError for a file that is no record, is of another scoring version, or is the second of a name.
    """
    found: dict[str, Record] = {}
    for path in paths:
        files = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not files or not all(file.is_file() for file in files):
            raise InputError(f"confirmed: {str(path)!r} holds no record; allowed: what `trainwreck confirm` writes")
        for file in files:
            name, record = _read(file)
            if name in found:
                raise InputError(f"{file}: there is another record of {name!r}; allowed: one of each submission")
            found[name] = record
    return found


def claim_of(card: Scorecard, records: Mapping[str, Record]) -> dict[str, Any]:
    """Columns of an entry's row on a board: `claim`, "" for what is no submission, and recall on private seeds.

    card: under the name of the submission. Of several private data sets the one with the lowest recall counts.
    """
    if SUBMISSION not in card.about:
        return NO_CLAIM
    record = records.get(card.detector)
    if record is not None and record.submission != card.about[SUBMISSION]:
        return NO_CLAIM | {"claim": CHANGED}
    columns = None if record is None else record.columns.get((card.profile, card.track))
    return NO_CLAIM | (columns or {"claim": CLAIMED})


def _read(file: Path) -> tuple[str, Record]:
    content = read_json(file)
    if not isinstance(content, dict) or (content.get("format"), content.get("version")) != (FORMAT, VERSION):
        raise InputError(f"{file}: not a record of this version; allowed: what `trainwreck confirm` writes")
    if content.get("scoring_version") != SCORING_VERSION:
        raise InputError(
            f"{file}: scoring version {content.get('scoring_version')!r} is not allowed; allowed: {SCORING_VERSION}, "
            "by `trainwreck confirm` again"
        )
    try:
        columns = {}
        for entry in content["entries"]:
            if entry["verdict"] not in VERDICTS:
                raise ValueError(entry["verdict"])
            lowest = min((part["recall"] for part in entry["private"]), key=lambda recall: float(recall["value"]))
            facts = {column: float(lowest[end]) for end, column in COLUMNS.items()}
            columns[entry["profile"], entry["track"]] = {"claim": entry["verdict"], **facts}
        return str(content["name"]), Record(content[SUBMISSION], columns)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{file}: damaged record ({type(error).__name__}: {error})") from None


def _entry(stored: AlarmFile, claim: Scorecard, again: Scorecard, private: Sequence[Scorecard]) -> dict[str, Any]:
    """What is found of one profile and track. again: on the public data set; private: on each private one."""
    replayed = {one.run_id: reduced(one) for one in again.alarms}
    pairs = [(one, replayed[one.run_id]) for one in stored.alarms if one.run_id in replayed]
    equal, close = (sum(same(one, other, tolerance) for one, other in pairs) for tolerance in (0.0, TOLERANCE))
    parts = [_beside(claim, card) for card in private]
    verdicts = [part["verdict"] for part in parts]
    if close < REPRODUCED * len(stored.alarms):
        verdicts.append(NOT_REPRODUCED)
    return {
        "profile": claim.profile,
        "track": claim.track,
        "budget": HEADLINE_BUDGET,
        "runs": len(stored.alarms),
        "equal": equal,
        "close": close,
        "confinement": again.about.get(CONFINEMENT),
        "claimed": {"recall": _interval(claim.in_time_recall), "stopped": _interval(claim.healthy_stopped)},
        "private": parts,
        "verdict": max(verdicts, key=VERDICTS.index),
    }


def _beside(claim: Scorecard, private: Scorecard) -> dict[str, Any]:
    """The score on a private data set, and by how much the claim is above it."""
    recall = difference(claim.in_time_recall[:3], private.in_time_recall[:3])
    stopped = difference(claim.healthy_stopped[:3], private.healthy_stopped[:3])
    verdict = VERIFIED
    if not stopped[2] >= -ROUNDING:  # as NaN is not
        verdict = MORE_STOPS
    if not recall[1] <= ROUNDING:
        verdict = LOWER
    return {
        "recall": _interval(private.in_time_recall),
        "stopped": _interval(private.healthy_stopped),
        "failed": private.counts["crashed"],
        "recall_difference": _interval(recall),
        "stopped_difference": _interval(stopped),
        "recall_differs": not (recall[1] <= ROUNDING and recall[2] >= -ROUNDING),
        "verdict": verdict,
    }


def same(one: StoredAlarms, other: StoredAlarms, tolerance: float = 0.0) -> bool:
    """Whether a run has the same alarms, causes and end, and the same scores within a relative tolerance, 0: bitwise.

    Of the scores those are compared that `stored_alarms` keeps: the largest so far, at each step at which it rises.
    """
    answers = [[causes for _, causes in a.answers] for a in (one, other)]  # by threshold; steps may move with last bits
    facts = [(a.outcome, a.rows, a.last_judged, a.edges.tolist(), a.causes) for a in (one, other)]
    if facts[0] != facts[1] or answers[0] != answers[1]:
        return False
    if tolerance == 0.0:
        same_steps = one.steps.tolist() == other.steps.tolist() and one.answers == other.answers
        return same_steps and one.scores.tobytes() == other.scores.tobytes()
    steps = np.union1d(one.steps, other.steps)
    if not len(steps):
        return True
    if not (len(one.steps) and len(other.steps)) or one.steps[0] != other.steps[0]:
        return False
    first, second = (a.scores[np.searchsorted(a.steps, steps, side="right") - 1] for a in (one, other))
    return bool(np.allclose(first, second, rtol=tolerance, atol=0.0))


def _check_private(data: DataSet, public: DataSet) -> None:
    if telemetry_digest(data) == telemetry_digest(public):
        raise InputError(f"private: {data.path} has the telemetry of {public.path}; allowed: runs of private seeds")
    runs = data.runs[~data.runs["split"].isin(TUNING_SPLITS)]
    shared = sorted(set(runs["run_id"]) & set(public.runs["run_id"]))
    if shared:
        raise InputError(
            f"private: {len(shared)} of the {len(runs)} measured runs of {data.path} are in {public.path} too, "
            f"{shared[0]} first; allowed: runs of private seeds"
        )


def _check_labels(data: DataSet) -> None:
    """InputError for a data set without failing or without healthy runs to measure on."""
    refuse_imported(data, "scored")
    runs = data.runs[~data.runs["split"].isin(TUNING_SPLITS)]
    failing = runs["kind"].isin(FAILURES) & runs["visible_step"].notna()
    healthy = runs["kind"] == RunKind.HEALTHY.value
    for what, found in (("failing run with a visible step", failing), ("healthy run", healthy)):
        if not found.any():
            raise InputError(f"{data.path}: has no {what} to measure on; allowed: a data set with both kinds")


def _described(data: DataSet, public: DataSet) -> dict[str, Any]:
    """What is said of a data set. calibration_shared: calibration runs that are in the public one as well."""
    calibration = data.runs["run_id"][data.runs["split"] == CALIBRATION]
    facts: dict[str, Any] = {
        "plan": data.manifest.get("plan", "custom"),
        "runs": len(data),
        "telemetry_sha256": telemetry_digest(data),
        "calibration": len(calibration),
    }
    if data is not public:
        facts["calibration_shared"] = int(calibration.isin(public.runs["run_id"]).sum())
    return facts


def _interval(estimate: Sequence[Any]) -> dict[str, float | None]:
    found: dict[str, float | None] = plain(dict(zip(ENDS, estimate[:3], strict=True)))
    return found


def _code(detector: str) -> str | None:
    """Checksum of the detector's file, None for what is no class of a file."""
    file = Path(detector.rpartition(":")[0])
    return sha256(file) if file.suffix == ".py" and file.is_file() else None

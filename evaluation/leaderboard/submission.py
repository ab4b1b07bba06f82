"""An entry that someone else made: a folder with the facts and the raw alarms, scored from the alarms alone.

NAME/submission.json   who, which detector at which version, where its code is, whether it is causal, rows at a time
NAME/alarms/*.parquet  `alarm_file`, one a profile and track, all of that detector and of one data set

It is a claim: whoever has the data set has its labels too. `confirm` runs the code again.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.registry import builtin_detectors
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.files import read_json, sha256, write_folder, write_json
from trainwreck.evaluation.leaderboard.entries import entry_name
from trainwreck.evaluation.leaderboard.rescore import SUFFIX, alarm_files, keep_alarms
from trainwreck.evaluation.leaderboard.run import Progress, board_profiles, score_all
from trainwreck.evaluation.leaderboard.shortcuts import SHORTCUTS
from trainwreck.evaluation.leaderboard.stored_alarms import AlarmFile, read_alarms
from trainwreck.evaluation.replay.oracles import ORACLES
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.scoring.scorecard import Scorecard

FILE = "submission.json"
ALARMS = "alarms"
SUBMISSION = "submission_sha256"  # key of what is said about an entry: which submission it is of
FORMAT = "trainwreck-submission"
VERSION = 2
VERSIONS = (1, VERSION)  # the first did not say how many rows were sent at a time
BATCH = 1  # rows that a detector is sent at a time: the next is sent when it has answered
TEXTS = ("detector_version", "code", "licence", "contact")
FIELDS = ("format", "version", "name", "detector", *TEXTS, "causal", "batch", "alarms")


@dataclass(frozen=True)
class Facts:
    """What a submission says of itself. code: address of the source; causal: no output uses a later row."""

    name: str
    detector_version: str
    code: str
    licence: str
    contact: str
    causal: bool

    def check(self) -> None:
        """InputError for the first that is missing or can't be."""
        _check_texts("submission", vars(self))


def row_by_row(
    dataset: DataSet,
    detector: str,
    profiles: Sequence[str],
    track: str,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> list[Scorecard]:
    """The scorecards of a detector by profile, replayed as a submission is: in a process of its own.

    The process gets a row when it has answered to the one before, and no run of a twin set of which it has seen one,
    under any profile: until one of them fails they are bitwise the same. detector: by name, a built-in one too.
    profiles: by default those of a board. limits: `batch` is 1 whatever it says. InputError for an oracle, and for an
    object of this process, which holds all rows of a run.
    """
    if not isinstance(detector, str):
        raise InputError(
            f"detector: {entry_name(detector)!r} is an object of this process, which has all rows; allowed: a name, "
            "file.py:Class, cmd:PROGRAM WORD ..."
        )
    if detector in ORACLES:
        raise InputError(f"detector: {detector!r} knows the label; allowed: a detector")
    limits = replace(limits or Limits(), batch=BATCH)
    settings: dict[str, Any] = {"track": track, "limits": limits, "isolate": True, "twins_apart": True}
    return [
        card
        for profile in dict.fromkeys(profiles or board_profiles(dataset))
        for card in score_all(dataset, [detector], profiles=[profile], progress=progress, **settings)
    ]


def write_submission(out: Path, facts: Facts, dataset: DataSet, cards: Sequence[Scorecard]) -> Path:
    """Write OUT/NAME from the scorecards of one detector, whole or not at all, and return the folder.

    cards: of `row_by_row`, or of people who were shown one row after the other. InputError for facts that are missing
    or can't be, and a folder that holds something already.
    """
    facts.check()
    detector = cards[0].detector
    folder = out / facts.name

    def fill(made: Path) -> None:
        files = keep_alarms(made / ALARMS, dataset, cards)
        sums = {f"{ALARMS}/{file.name}": sha256(file) for file in files}
        content = {"format": FORMAT, "version": VERSION, "detector": detector, **vars(facts)}
        content |= {"batch": BATCH, "alarms": sums}
        write_json(made / FILE, content)

    write_folder(folder, fill)
    return folder


def read_facts(folder: Path) -> dict[str, Any]:
    """What submission.json says, `batch` None where it says nothing of it; InputError for what can't be."""
    file = folder / FILE
    if not file.is_file():
        raise InputError(f"submission: {str(folder)!r} has no {FILE}; allowed: a folder of `trainwreck submit`")
    content = read_json(file)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{file}: not a submission; allowed: what `trainwreck submit` writes")
    if content.get("version") not in VERSIONS:
        allowed = ", ".join(map(str, VERSIONS))
        raise InputError(f"{file}: version {content.get('version')!r} is not allowed; allowed: {allowed}")
    for name in content:
        if name not in FIELDS:
            raise InputError(f"{file}: {unknown('field', name, FIELDS)}")
    _check_texts(str(file), content)
    if not isinstance(content.get("causal"), bool):
        raise InputError(f"{file}: causal: {content.get('causal')!r} is not allowed; allowed: true, false")
    batch = content.setdefault("batch", None)
    if batch is not None and (type(batch) is not int or batch < 1):
        raise InputError(f"{file}: batch: {batch!r} is not allowed; allowed: 1, one row at a time")
    if folder.resolve().name != content["name"]:
        raise InputError(f"{file}: name: {content['name']!r} is not the folder's, {folder.resolve().name!r}")
    return content


def read_submission(folder: Path) -> list[AlarmFile]:
    """The alarms of a submission under its own name; InputError for the first thing in the folder that can't be."""
    content, file = read_facts(folder), folder / FILE
    return [_entry(folder, path, content) for path in _listed(folder, file, content.get("alarms"))]


def require_row_by_row(files: Sequence[AlarmFile]) -> None:
    """InputError for the first that is of a submission whose detector may have had later rows in its process."""
    for one in files:
        batch = one.about.get("batch")
        if SUBMISSION in one.about and batch != BATCH:
            raise InputError(
                f"{one.path.parent.parent / FILE}: batch: {batch!r} is not allowed on a board, since later rows may "
                f"have been in the detector's process; allowed: {BATCH}, as `trainwreck submit` replays"
            )


def stored_in(paths: Sequence[Path]) -> list[AlarmFile]:
    """Alarms under each path: a file, a folder of files, a submission, or a folder of submissions.

    InputError for a path with none of these, and for two entries of one name, profile and track.
    """
    found: list[AlarmFile] = []
    for path in paths:
        inside = sorted(file.parent for file in path.glob(f"*/{FILE}")) if path.is_dir() else []
        if (path / FILE).is_file():
            found += read_submission(path)
        elif inside:
            found += [one for folder in inside for one in read_submission(folder)]
        else:
            found += alarm_files([path])
    seen: dict[tuple[str, str, str], Path] = {}
    for one in found:
        key = (one.detector, one.profile, one.track)
        if key in seen:
            raise InputError(f"{one.path}: alarms of {', '.join(key)} are in {seen[key]} already")
        seen[key] = one.path
    return found


def _entry(folder: Path, path: Path, content: dict[str, Any]) -> AlarmFile:
    one = read_alarms(path)
    if one.detector != content["detector"]:
        raise InputError(f"{path}: detector: {one.detector!r} is not the submission's, {content['detector']!r}")
    about = one.about | {
        "source": content["code"],
        "causal": content["causal"],
        "version": content["detector_version"],
        "licence": content["licence"],
        "batch": content["batch"],
        SUBMISSION: sha256(folder / FILE),
    }
    return replace(one, detector=content["name"], about=about)


def _listed(folder: Path, file: Path, sums: Any) -> list[Path]:
    """The files of alarms, which are those that the submission lists, as they were."""
    if not isinstance(sums, dict) or not sums:
        raise InputError(f"{file}: alarms: {sums!r} is not allowed; allowed: each file with its SHA-256")
    present = {f"{ALARMS}/{path.name}" for path in (folder / ALARMS).glob("*")}
    for name in sorted(present ^ set(sums)):
        raise InputError(f"{folder / name}: {'not listed in ' + FILE if name in present else 'missing'}")
    for name in sums:
        if not name.endswith(SUFFIX):
            raise InputError(f"{file}: alarms: {name!r} is not allowed; allowed: {ALARMS}/NAME{SUFFIX}")
        if sha256(folder / name) != sums[name]:
            raise InputError(f"{folder / name}: damaged or edited, its checksum is not that of {FILE}")
    return [folder / name for name in sorted(sums)]


def _check_texts(where: str, content: dict[str, Any]) -> None:
    for name in ("name", *TEXTS):
        value = content.get(name)
        if not isinstance(value, str) or not value.strip() or "\n" in value:
            raise InputError(f"{where}: {name}: {value!r} is not allowed; allowed: one line of text")
    name = content["name"]
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,59}", name):
        raise InputError(f"{where}: name: {name!r} is not allowed; allowed: up to 60 of a-z, 0-9, - and _")
    if name in (*builtin_detectors(), *SHORTCUTS, *ORACLES):
        raise InputError(f"{where}: name: {name!r} is taken by a built-in entry; allowed: another")
    if not re.fullmatch(r"https?://[^\s\"<>]+", content["code"]):
        raise InputError(f"{where}: code: {content['code']!r} is not allowed; allowed: http://... or https://...")

"""A data set as it is published: partitioned, described, checksummed; it can be loaded like any other.

    REL/README.md, LICENSE, COLUMNS.md   the card, the data's licence, the columns
    REL/runs.parquet, runs/SPLIT.parquet the runs table, whole and by split
    REL/telemetry/split=*/kind=*/*       see `partitions`
    REL/catalogue.json, plan.json        pages of the scenarios; what `generate` makes it of again
    REL/baselines.json                   the leaderboard
    REL/croissant.json                   metadata for other tools
    REL/manifest.json, SHA256SUMS        checksums: of what this package reads, and of every file

A release is a function of the data set: the same runs give the same bytes. It is built beside its
place and moved there in one step, so that an interrupted one leaves nothing and can be made again.
"""

import datetime
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from trainwreck.evaluation.constants import COMMON_SIGNALS
from trainwreck.evaluation.dataset.dataset import SUMS, DataSet, load, write_manifest, write_runs
from trainwreck.evaluation.dataset.joined import Joined, joined
from trainwreck.evaluation.dataset.schema import document
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.files import locked, read_json, sha256, write_json, write_text
from trainwreck.evaluation.leaderboard.cache import SCORES, kept, scores_of
from trainwreck.evaluation.leaderboard.run import board_entries
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.release.card import card
from trainwreck.evaluation.release.croissant import metadata
from trainwreck.evaluation.release.facts import CREATORS, LICENCE, LICENCE_TERMS, LICENCE_URL, Facts
from trainwreck.evaluation.release.partitions import write_partitions
from trainwreck.evaluation.release.selection import plan_of, released_rows, scenario_names
from trainwreck.evaluation.replay.profiles import ALL_PROFILES
from trainwreck.evaluation.replay.unlabelled import refuse_imported

LOG_PROFILES = ("common", "minimal", "logged")  # which show nothing but the signals of `common`
BESIDE = (SCORES, "report.html")  # what `leaderboard` and `report` leave in a data set
TIMED = "update_us"  # the one column of the leaderboard that no two runs share

LICENCE_TEXT = f"""The data in this folder is (c) {CREATORS}, licensed under {LICENCE},
the Creative Commons Attribution 4.0 International Public License.

You may share and adapt it for any purpose, also a commercial one, as long as you give credit, link to the
licence and say whether you changed anything.

In short:    {LICENCE_URL}
The terms:   {LICENCE_TERMS}

The package trainwreck, which made the data, has a licence of its own (MIT).
"""


def release(
    folder: Path,
    out: Path,
    *,
    parts: Sequence[Path] = (),
    private: bool = False,
    published: str | None = None,
    url: str | None = None,
    profiles: Sequence[str] = (),
    logs: bool = False,
    tick: Tick | None = None,
    workers: int = 1,
) -> DataSet:
    """Write the released form of a data set and open it.

    parts: further parts of its plan, released with it as one. private: only the private runs, with the calibration
    runs, instead of all but the private ones.
    published: the day, YYYY-MM-DD; url: the data's page; both for the metadata, which leaves out what
    is not known. profiles: of the baseline table, `full` or of logs `common` where there are none; it is taken from the
    data set's leaderboard where that is at hand. logs: only the signals of `common`, a small part of the bytes, for
    detectors that read logs; `profiles` are of `LOG_PROFILES` then. workers: processes to score in.

    InputError for a data set that is damaged, imported or has nothing to release, parts that do not fit, a day or page
    that is none, profiles that show more than is released, and an `out` that holds something else than an earlier
    release.
    """
    profiles = profiles or (LOG_PROFILES[0] if logs else "full",)
    _check_words(published, url, profiles, logs)
    opened = [load(part) for part in (folder, *parts)]
    for part in opened:
        refuse_imported(part, "released")
        _check_signals(part, logs)
    dataset = joined(opened)
    rows = released_rows(dataset, private=private)
    for part in opened:
        _check_place(out, part.path)
    facts = Facts(rows, dataset.manifest, private, published, url, COMMON_SIGNALS if logs else ())
    lock, building = out.with_name(f".tmp-{out.name}.lock"), out.with_name(f".tmp-{out.name}")
    try:
        with locked(lock, out):
            shutil.rmtree(building, ignore_errors=True)  # an earlier call was interrupted here
            try:
                _build(dataset, facts, building, profiles, tick, workers)
                _move(building, out)
            finally:
                shutil.rmtree(building, ignore_errors=True)
                lock.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{out}: can't be written ({error.strerror or error})") from error
    return load(out)


def _build(
    dataset: DataSet, facts: Facts, root: Path, profiles: Sequence[str], tick: Tick | None, workers: int
) -> None:
    """Everything, under `root`."""
    parted = isinstance(dataset, Joined)
    rows = write_partitions(
        dataset,
        facts.rows,
        root,
        lambda done: tick(done, len(facts.rows), "runs written") if tick else None,
        facts.signals,
    )
    write_runs(root, rows)
    for split in facts.splits:
        write_runs(root, [row for row in rows if row["split"] == split], f"runs/{split}.parquet")
    names = scenario_names(rows)
    pages = dataset.pages if parted or (dataset.path / "catalogue.json").exists() else {}
    write_json(root / "catalogue.json", {name: page for name, page in pages.items() if name in names})
    write_json(root / "plan.json", plan_of(rows, facts.plan))
    whole = len(rows) == len(dataset) and not parted
    # A hash over runs that stay behind would let a guess at them be checked.
    dropped = ("files", "format", "schema_version", *(() if whole else ("plan_hash",)))
    known = {name: value for name, value in dataset.manifest.items() if name not in dropped}
    counts = {split: facts.count(split=split) for split in facts.splits}
    also = [f"runs/{split}.parquet" for split in facts.splits] + ["plan.json"]
    shown = {"signals": list(facts.signals)} if facts.signals else {}
    write_manifest(root, known | {"release": {"splits": counts, "private": facts.private, **shown}}, also)

    scores = _standing_scores(dataset, profiles) if whole and not facts.signals else None
    if scores is None:
        scores = scores_of(load(root), (), profiles, tick, workers)
    table = [{name: value for name, value in row.items() if name != TIMED} for row in scores["rows"]]
    write_json(root / "baselines.json", {"scoring_version": scores["of"]["scoring_version"], "rows": table})
    columns = _columns(root / rows[0]["file"])
    write_json(root / "croissant.json", metadata(facts, root, columns))
    write_text(root / "README.md", card(facts, scores))
    write_text(root / "LICENSE", LICENCE_TEXT)
    write_text(root / "COLUMNS.md", document(columns))
    listed = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    write_text(root / SUMS, "".join(f"{sha256(root / name)}  {name}\n" for name in listed))


def _columns(file: Path) -> list[str]:
    """The columns of a telemetry file; all files of a release have the same."""
    return list(pq.read_schema(file).names)


def _standing_scores(dataset: DataSet, profiles: Sequence[str]) -> dict[str, Any] | None:
    """The leaderboard that lies beside a data set, if it is of the entries that a release shows."""
    scores = kept(dataset)
    if scores is None:
        return None
    entries = {(card["detector"], card["profile"]) for card in scores["cards"]}
    shown = {(name, profile) for name in board_entries(dataset) for profile in profiles}
    return scores if entries == shown else None


def _move(building: Path, out: Path) -> None:
    """Put a finished release in its place, in that of an earlier one where there is one."""
    earlier = out.with_name(f".tmp-{out.name}.earlier")
    shutil.rmtree(earlier, ignore_errors=True)
    if out.exists():
        out.rename(earlier)
    building.rename(out)
    shutil.rmtree(earlier, ignore_errors=True)


def _check_place(out: Path, folder: Path) -> None:
    """InputError unless `out` is free, or holds an earlier release and nothing else."""
    if out.resolve() == folder.resolve() or folder.resolve() in out.resolve().parents:
        raise InputError(f"out: {str(out)!r} is in the data set; allowed: another folder")
    if out.resolve() in folder.resolve().parents:
        raise InputError(f"out: {str(out)!r} holds the data set; allowed: another folder")
    if out.exists() and not out.is_dir():
        raise InputError(f"out: {str(out)!r} is a file; allowed: a folder")
    if not out.exists():
        return
    present = {path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir()}
    if not present:
        return
    if SUMS not in present or not _is_release(out):
        raise InputError(f"out: {str(out)!r} is not empty and holds no release; allowed: an empty folder")
    lines = (out / SUMS).read_text(encoding="utf-8").splitlines()
    others = sorted(present - {line.partition("  ")[2] for line in lines} - {SUMS, *BESIDE})
    if others:
        raise InputError(
            f"out: {str(out)!r} holds {others[0]!r}, which is not of the release; allowed: to move it away"
        )


def _is_release(out: Path) -> bool:
    manifest = read_json(out / "manifest.json") if (out / "manifest.json").exists() else None
    return isinstance(manifest, dict) and "release" in manifest


def _check_signals(part: DataSet, logs: bool) -> None:
    """InputError for a release of logs that is to be released with every signal."""
    if part.manifest.get("release", {}).get("signals") and not logs:
        raise InputError(f"{part.path}: has the signals of logs alone; allowed: with --logs")


def _check_words(published: str | None, url: str | None, profiles: Sequence[str], logs: bool) -> None:
    for profile in profiles:
        if profile not in ALL_PROFILES:
            raise unknown("profile", profile, ALL_PROFILES)
        if logs and profile not in LOG_PROFILES:
            raise InputError(f"profile: {profile!r} is not allowed for logs; allowed: {', '.join(LOG_PROFILES)}")
    if published is not None:
        try:
            right = datetime.date.fromisoformat(published).isoformat() == published
        except ValueError:
            right = False
        if not right:
            raise InputError(f"published: {published!r} is not allowed; allowed: a day as 2026-01-31")
    if url is not None and not re.fullmatch(r"https?://[^\s\"<>]+", url):
        raise InputError(f"url: {url!r} is not allowed; allowed: http://... or https://...")

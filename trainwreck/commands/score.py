"""Score: detectors on a data set, side by side, from replays or from stored alarms."""

import json
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainwreck.commands.choices import ALL_PROFILES, AT, DETECTOR, PATH, OneOf
from trainwreck.commands.logs import full_and_blind, print_alarms, print_real, print_real_board, write_real
from trainwreck.commands.options import (
    alarms_option,
    as_json,
    board_profiles_option,
    confirmed_option,
    data_set,
    isolate_option,
    labels_option,
    limits_options,
    one_blas_thread,
    profile_option,
    profiles_option,
    stored_option,
    track_option,
)
from trainwreck.commands.tables import print_board, print_json, print_paired_tests, print_transfer
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.progress import progress
from trainwreck.evaluation.replay.sandbox.limits import Limits

if TYPE_CHECKING:
    from trainwreck.evaluation.scoring.scorecard import Scorecard


@click.command()
@data_set
@click.option(
    "--detector",
    "detectors",
    type=DETECTOR,
    multiple=True,
    required=True,
    help="A name, file.py:Class, or 'cmd:PROGRAM WORD ...'. May be repeated.",
)
@labels_option
@profile_option
@track_option
@click.option(
    "--detector-seeds",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Replay each with seed=0, 1, ... and report the spread of its scores.",
)
@isolate_option
@partial(limits_options, ranked=False)
@alarms_option
@as_json
def score(
    dir: Path,
    detectors: Sequence[str],
    labels: Path | None,
    profile: str,
    track: str,
    detector_seeds: int,
    isolate: bool,
    limits: Limits,
    alarms: Path | None,
    as_json: bool,
) -> None:
    """Score detectors on a data set.

    DIR may be `sample`, which ships with the package. Of imported logs the alarms are listed; with --labels they are
    scored as far as people's labels go. A detector that is not built in (of a file, an installed plug-in, or a command
    in any language: docs/protocol.md) runs in a process of its own, within limits.
    """
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.detectors.registry import GROUP
    from trainwreck.evaluation.leaderboard.run import score_all

    dataset = load(dir)
    if dataset.imported and detector_seeds > 1:
        raise InputError("detector-seeds: not allowed for imported runs; allowed: 1")
    if entry_points(group=GROUP):
        from trainwreck.evaluation.detectors.plugins import clashes

        for clash in clashes(detectors):
            print(f"note: {clash}", file=sys.stderr)
    if dataset.imported:
        full_and_blind(profile, track)
        if alarms is not None:
            raise InputError("alarms: not allowed for imported runs, which have no label to score by; allowed: --json")
    if labels:
        return print_real(dataset, labels, detectors, limits, as_json)
    if dataset.imported:
        return print_alarms(dataset, detectors, limits, as_json)

    def finished(card: "Scorecard") -> None:
        """Keep and show a card at once, so that whatever ends the command takes none of those that are finished."""
        if alarms is not None:
            from trainwreck.evaluation.leaderboard.rescore import keep_card

            keep_card(alarms, dataset, card)
        if not as_json:
            print(card.text(), flush=True)

    with progress("score", quiet=as_json) as tick:
        cards = score_all(
            dataset,
            list(detectors),
            profiles=[profile],
            track=track,
            limits=limits,
            isolate=isolate,
            seeds=detector_seeds,
            progress=tick,
            finished=finished,
        )
    if as_json:
        print_json([card.to_dict() for card in cards])
    crashes = [(card.detector, run) for card in cards for run in card.alarms if run.crashed]
    if crashes:
        name, first = crashes[0]
        last = f"; it printed last: {first.stderr[-1]}" if first.stderr else ""
        raise InputError(f"detector {name}: {first.status} (on {len(crashes)} runs, first {first.run_id}){last}")


@click.command()
@data_set
@board_profiles_option
@click.option(
    "--detector",
    "detectors",
    type=DETECTOR,
    multiple=True,
    help="Beside the built-in ones: file.py:Class, or 'cmd:PROGRAM WORD ...'. With --labels: these alone.",
)
@labels_option
@stored_option
@click.option("--out", type=PATH, help="Folder for the board as HTML, CSV, JSON and Parquet.")
@confirmed_option
@alarms_option
@click.option(
    "--at",
    type=OneOf(AT),
    default=AT[0],
    show_default=True,
    help="Operating point of the table: a share of healthy runs stopped, each detector's own alarm, or no threshold.",
)
@limits_options
@as_json
@click.pass_context
def leaderboard(
    context: click.Context,
    dir: Path,
    profiles: Sequence[str],
    detectors: Sequence[str],
    labels: Path | None,
    stored: Sequence[Path],
    out: Path | None,
    confirmed: Sequence[Path],
    alarms: Path | None,
    at: str,
    limits: Limits,
    as_json: bool,
) -> None:
    """Score every built-in detector on a data set.

    With --from it has every entry whose alarms are stored, and takes labels alone: DIR needs no telemetry then. A
    submission is shown as a claim, or as what `trainwreck confirm` found of it. Of imported logs, with --labels, it has
    in-time recall on real runs, at thresholds set on the healthy runs of other clusters (docs/logs.md).
    """
    one_blas_thread()
    if labels:
        for name in ("profiles", "stored", "confirmed", "alarms"):
            if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
                option = {"profiles": "profile", "stored": "from"}.get(name, name)
                raise InputError(f"{option}: not allowed beside --labels, which replays the logs; allowed: one of them")
        return print_real_board(dir, labels, detectors, out, at, limits, as_json)
    missing: list[str] = []
    if stored:
        _refuse_beside_stored(context, "detectors", "alarms", "profiles")
        from trainwreck.evaluation.leaderboard.cache import board_from

        scores = board_from(dir, stored, confirmed)
    elif confirmed:
        raise InputError("confirmed: not allowed without --from; allowed: beside the submissions that were run again")
    else:
        scores = replayed(dir, detectors, profiles, alarms, quiet=as_json, limits=limits)
        missing = _missing(dir)
    if out is not None:
        from trainwreck.evaluation.dataset.dataset import load_labels
        from trainwreck.evaluation.pages.leaderboard.board_files import write_board

        command = shlex.join(["trainwreck", *sys.argv[1:]])
        files = write_board(out, load_labels(dir), scores, command)
    if as_json:
        return print_json(scores["rows"])
    print_board(scores["rows"], at)
    for profile, easy in scores["easy"].items():
        if easy:
            print(f"easy under {profile}, solved by every one-liner: {', '.join(easy)}")
    for line in missing:
        print(line)
    if out is not None:
        print(f"page: {files[0]}")


def _missing(dir: Path) -> list[str]:
    """A line for each reason why a built-in entry is not on the board of a data set."""
    from trainwreck.evaluation.dataset.dataset import load_labels
    from trainwreck.evaluation.detectors.registry import absent
    from trainwreck.evaluation.leaderboard.shortcuts import left_out

    return [line for line in (absent(), left_out(load_labels(dir).runs)) if line]


def replayed(
    dir: Path,
    extra: Sequence[str],
    profiles: Sequence[str],
    alarms: Path | None,
    quiet: bool,
    limits: Limits | None = None,
) -> dict[str, Any]:
    """The board of a replay by all cores."""
    from joblib import cpu_count

    from trainwreck.evaluation.leaderboard.cache import leaderboard_of

    with progress("score detectors", quiet=quiet) as tick:
        return leaderboard_of(dir, extra, profiles, tick, cpu_count(), alarms, limits)


def _refuse_beside_stored(context: click.Context, *options: str) -> None:
    """InputError for an option that is given and asks for a replay."""
    for name in options:
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            option = name.removesuffix("s") if name != "alarms" else name
            raise InputError(f"{option}: not allowed beside --from, which replays nothing; allowed: one of them")


@click.command()
@data_set
@click.argument("detector", type=DETECTOR)
@click.argument("others", nargs=-1, type=DETECTOR, metavar="[OTHER ...]")
@profiles_option
@track_option
@stored_option
@limits_options
@as_json
@click.pass_context
def compare(
    context: click.Context,
    dir: Path,
    detector: str,
    others: Sequence[str],
    profiles: Sequence[str],
    track: str,
    stored: Sequence[Path],
    limits: Limits,
    as_json: bool,
) -> None:
    """Compare a detector with others by paired tests.

    Of each OTHER it prints the in-time recall, by how much DETECTOR is ahead of it, and the p-value of a permutation
    test over scenarios, studentised, with Holm's correction. Detectors are replayed on DIR; with --from their stored
    alarms are read, DIR needs no telemetry, and without OTHER all of them are compared.
    """
    one_blas_thread()
    from trainwreck.evaluation.constants import BUDGETS
    from trainwreck.evaluation.dataset.sample import named
    from trainwreck.evaluation.leaderboard.ranking import beside
    from trainwreck.evaluation.scoring.scorecard import plain

    names = [detector, *others]
    for name in names:
        if (named(Path(name)) / "manifest.json").is_file():
            raise InputError(f"detector: {name!r} is a data set; two data sets are compared by `trainwreck diff`")
        if names.count(name) > 1:
            raise InputError(f"detector: {name!r} is given twice; allowed: once")
    if stored:
        _refuse_beside_stored(context, "profiles", "track")
        cards = _stored_cards(dir, stored, names)
    elif not others:
        raise InputError("detector: one alone is not allowed; allowed: two or more, or --from with stored alarms")
    else:
        from trainwreck.evaluation.dataset.dataset import load
        from trainwreck.evaluation.leaderboard.run import score_all

        with progress("compare", quiet=as_json) as tick:
            cards = score_all(
                load(dir), names, profiles=list(profiles), track=track, limits=limits, twins_apart=True, progress=tick
            )
        detector = cards[0].detector  # a file without its folder
    rows = beside(cards, detector)
    if as_json:
        return print_json([plain(row) for row in rows])
    print_paired_tests(rows, detector, BUDGETS)


def _stored_cards(dir: Path, stored: Sequence[Path], names: Sequence[str]) -> "list[Scorecard]":
    """Scorecards of stored alarms: of these detectors, of all where there is but one name."""
    from trainwreck.evaluation.dataset.dataset import load_labels
    from trainwreck.evaluation.leaderboard.rescore import rescore
    from trainwreck.evaluation.leaderboard.submission import stored_in

    cards = rescore(load_labels(dir), stored_in(stored))
    known = sorted({card.detector for card in cards})
    for name in names:
        if name not in known:
            raise unknown("detector", name, known)
    return [card for card in cards if len(names) == 1 or card.detector in names]


@click.command()
@click.argument("board", type=PATH)
@click.argument("real", type=PATH)
@click.option("--profile", type=OneOf((*ALL_PROFILES, "log")), help="Of BOARD; needed where it has several.")
@click.option("--at", type=OneOf(AT[:-1]), default=AT[0], show_default=True, help="Operating point of both boards.")
@click.option("--lenient", is_flag=True, help="Lenient recall of REAL, a board of real runs.")
@as_json
def transfer(board: Path, real: Path, profile: str | None, at: str, lenient: bool, as_json: bool) -> None:
    """Compare the order of detectors on two boards, and what thresholds stop.

    BOARD and REAL are folders that `leaderboard --out` wrote, or the CSV or Parquet in them, which has no runs to
    resample. Spearman's and Kendall's correlation have intervals by resampling clusters of both boards; the ceiling is
    the correlation of a board with itself, by split halves of its clusters. Thresholds are those that the healthy runs
    behind BOARD set; the table has the share of REAL's healthy runs that they stop.
    """
    from trainwreck.evaluation.leaderboard.transfer.transfer import transfer as correlate

    found = correlate(board, real, profile=profile, at=at, lenient=lenient)
    if as_json:
        return print_json(found.to_dict())
    print_transfer(found)


@click.command()
@data_set
@click.option("--out", type=PATH, help="The page; DIR/report.html by default, sample.html for the sample.")
@click.option("--record", is_flag=True, help="Also write leaderboard and pictures under results/PLAN/.")
@labels_option
@click.option(
    "--detector",
    "detectors",
    type=DETECTOR,
    multiple=True,
    help="With --labels, beside the built-in ones: file.py:Class.",
)
@as_json
def report(
    dir: Path, out: Path | None, record: bool, labels: Path | None, detectors: Sequence[str], as_json: bool
) -> None:
    """Write a report of a data set as one HTML file.

    It has every scenario's picture, the labels and the leaderboard. Of imported runs, with --labels, it says what can
    be said of detectors on them, and what not.
    """
    from trainwreck.evaluation.dataset.sample import SAMPLE, is_sample

    if labels:
        page = write_real(dir, labels, out or dir / "report.html", detectors, quiet=as_json)
        return print(json.dumps({"report": str(page)}) if as_json else page)
    if detectors:
        raise InputError(f"--detector: {detectors[0]!r} is not allowed without --labels; allowed: in `leaderboard`")
    page = write_page(dir, out or (Path(f"{SAMPLE}.html") if is_sample(dir) else dir / "report.html"), quiet=as_json)
    if record:
        from trainwreck.evaluation.dataset.dataset import load
        from trainwreck.evaluation.pages.report import write_record

        write_record(dir, Path("results") / load(dir).manifest["plan"])
    print(json.dumps({"report": str(page)}) if as_json else page)


def write_page(dir: Path, out: Path, quiet: bool) -> Path:
    """The report of a data set, with progress."""
    from joblib import cpu_count

    from trainwreck.evaluation.pages.report import write_report

    with progress("report", quiet=quiet) as tick:
        return write_report(dir, out, tick, cpu_count())


@click.command()
@data_set
@click.argument("paths", nargs=-1, required=True, type=PATH)
@as_json
def rescore(dir: Path, paths: Sequence[Path], as_json: bool) -> None:
    """Score stored alarms again, without telemetry.

    PATHS are files, folders of them, or submissions; what can't be true of a file is named. DIR needs manifest.json and
    runs.parquet only.
    """
    one_blas_thread()
    from trainwreck.evaluation.dataset.dataset import load_labels
    from trainwreck.evaluation.leaderboard.rescore import rescore as again
    from trainwreck.evaluation.leaderboard.submission import stored_in

    cards = again(load_labels(dir), stored_in(paths))
    if as_json:
        return print_json([card.to_dict() for card in cards])
    for card in cards:
        print(card.text())

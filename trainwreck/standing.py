"""`trainwreck leaderboard`, `rescore` and `submit`: detectors side by side, from replays or from stored alarms."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainwreck.evaluation.constants import DEFAULT_PROFILE
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.progress import progress
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.options import alarms_option, as_json, data_set, limits_options, track_option
from trainwreck.tables import number, print_board, print_json, print_table

if TYPE_CHECKING:
    from trainwreck.evaluation.scoring.scorecard import Scorecard

profiles_option = click.option("--profile", "profiles", multiple=True, default=(DEFAULT_PROFILE,), show_default=True)


@click.command()
@data_set
@profiles_option
@click.option(
    "--detector", "detectors", multiple=True, help="Beside the built-in ones: file.py:Class, or 'cmd:PROGRAM WORD ...'."
)
@click.option(
    "--from",
    "stored",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Stored alarms or submissions, instead of a replay. May be repeated.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the board as HTML, CSV, JSON and Parquet.")
@alarms_option
@limits_options
@as_json
@click.pass_context
def leaderboard(
    context: click.Context,
    dir: Path,
    profiles: Sequence[str],
    detectors: Sequence[str],
    stored: Sequence[Path],
    out: Path | None,
    alarms: Path | None,
    limits: Limits,
    as_json: bool,
) -> None:
    """Every built-in detector on a data set; with --from, every entry whose alarms are stored.

    A board from stored alarms takes labels alone: DIR needs no telemetry then.
    """
    from trainwreck.evaluation.detectors.registry import absent

    missing = ""
    if stored:
        given = context.get_parameter_source("profiles") is not click.core.ParameterSource.DEFAULT
        for name, used in (("detector", bool(detectors)), ("alarms", alarms is not None), ("profile", given)):
            if used:
                raise InputError(f"{name}: not allowed beside --from, which replays nothing; allowed: one of them")
        from trainwreck.evaluation.leaderboard.cache import board_from

        scores = board_from(dir, stored)
    else:
        scores = replayed(dir, detectors, profiles, alarms, quiet=as_json, limits=limits)
        missing = absent()
    if out is not None:
        from trainwreck.evaluation.dataset.dataset import load_labels
        from trainwreck.evaluation.pages.leaderboard.board_files import write_board

        command = shlex.join(["trainwreck", *sys.argv[1:]])
        files = write_board(out, load_labels(dir), scores, command)
    if as_json:
        return print_json(scores["rows"])
    print_board(scores["rows"])
    for profile, easy in scores["easy"].items():
        if easy:
            print(f"easy under {profile}, solved by every one-liner: {', '.join(easy)}")
    if missing:
        print(missing)
    if out is not None:
        print(f"page: {files[0]}")


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


@click.command()
@data_set
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--against", help="A detector: by how much it is ahead of each other one, and whether that is chance.")
@as_json
def rescore(dir: Path, paths: Sequence[Path], against: str | None, as_json: bool) -> None:
    """Check stored alarms and score them again: files, folders of them, or submissions.

    DIR needs manifest.json and runs.parquet only: no telemetry is read. What can't be true of a file is named.
    With --against, in-time recall beside that of one detector, by exact McNemar tests with Holm's correction.
    """
    from trainwreck.evaluation.dataset.dataset import load_labels
    from trainwreck.evaluation.leaderboard.rescore import rescore as again
    from trainwreck.evaluation.leaderboard.submission import stored_in

    cards = again(load_labels(dir), stored_in(paths))
    if against is not None:
        return _print_beside(cards, against, as_json)
    if as_json:
        return print_json([card.to_dict() for card in cards])
    for card in cards:
        print(card.text())


def _print_beside(cards: "Sequence[Scorecard]", name: str, as_json: bool) -> None:
    from trainwreck.evaluation.constants import BUDGETS
    from trainwreck.evaluation.leaderboard.ranking import beside
    from trainwreck.evaluation.scoring.scorecard import plain

    rows = beside(cards, name)
    if as_json:
        return print_json([plain(row) for row in rows])
    heads = [f"{what} at {budget:.0%}" for budget in BUDGETS for what in ("in-time recall", f"{name} ahead by", "p")]
    print_table(
        ("profile", "detector", *heads),
        [
            (
                row["profile"],
                row["detector"],
                *(
                    text
                    for budget in BUDGETS
                    for text in (
                        number(row[f"recall_{budget}"]),
                        number(row[f"ahead_{budget}"], "+"),
                        f"{row[f'p_{budget}']:.2g}",
                    )
                ),
            )
            for row in rows
        ],
    )


@click.command()
@data_set
@click.option("--detector", required=True, help="A name, file.py:Class, or 'cmd:PROGRAM WORD ...'.")
@click.option("--name", required=True, help="Of the entry and its folder: a-z, 0-9, - and _.")
@click.option("--version", "detector_version", required=True, help="Of the detector.")
@click.option("--code", required=True, help="Address of its source, best of one revision.")
@click.option("--licence", required=True, help="Of its source.")
@click.option("--contact", required=True, help="Who answers questions.")
@click.option("--causal/--not-causal", required=True, default=None, help="Whether no output uses a later row.")
@profiles_option
@track_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("results/leaderboard"),
    show_default=True,
    help="Folder of submissions.",
)
@as_json
def submit(
    dir: Path,
    detector: str,
    name: str,
    detector_version: str,
    code: str,
    licence: str,
    contact: str,
    causal: bool,
    profiles: Sequence[str],
    track: str,
    out: Path,
    as_json: bool,
) -> None:
    """Score a detector and write its submission, OUT/NAME: the facts, and the alarms to score it from."""
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.leaderboard.run import score_all
    from trainwreck.evaluation.leaderboard.submission import Facts, write_submission

    dataset = load(dir)
    facts = Facts(name, detector_version, code, licence, contact, causal)
    facts.check()
    with progress("score", quiet=as_json) as tick:
        cards = score_all(dataset, [detector], profiles=list(profiles), track=track, progress=tick)
    folder = write_submission(out, facts, dataset, cards)
    if as_json:
        return print_json({"submission": str(folder), "recall": {c.profile: c.headline.value for c in cards}})
    for card in cards:
        print(card.text())
    print(f"submission: {folder}")

"""Submissions to the leaderboard: written by their authors, and their code run again by whoever keeps the board."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from trainwreck.commands.choices import DATA_SET, DETECTOR, PATH
from trainwreck.commands.options import as_json, board_profiles_option, data_set, limits_options, track_option
from trainwreck.commands.tables import print_json, print_table
from trainwreck.evaluation.intervals import interval_text
from trainwreck.evaluation.progress import progress
from trainwreck.evaluation.replay.sandbox.limits import Limits


@click.command()
@data_set
@click.option("--detector", type=DETECTOR, required=True, help="A name, file.py:Class, or 'cmd:PROGRAM WORD ...'.")
@click.option("--name", required=True, help="Of the entry and its folder: a-z, 0-9, - and _.")
@click.option("--version", "detector_version", required=True, help="Of the detector.")
@click.option("--code", required=True, help="Address of its source, best of one revision.")
@click.option("--licence", required=True, help="Of its source.")
@click.option("--contact", required=True, help="Who answers questions.")
@click.option("--causal/--not-causal", required=True, default=None, help="Whether no output uses a later row.")
@board_profiles_option
@track_option
@click.option(
    "--out",
    type=PATH,
    default=Path("results/leaderboard"),
    show_default=True,
    help="Folder of submissions.",
)
@limits_options
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
    limits: Limits,
    as_json: bool,
) -> None:
    """Write a submission for the leaderboard.

    The detector is scored on DIR; OUT/NAME gets the facts, and the alarms to score it from. It runs in a process of its
    own, a built-in one too, and gets one row at a time: the next is sent when it has answered. The labels of DIR are
    public, so the score is a claim until `trainwreck confirm` has run the code again.
    """
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.leaderboard.submission import Facts, row_by_row, write_submission

    dataset = load(dir)
    facts = Facts(name, detector_version, code, licence, contact, causal)
    facts.check()
    with progress("score", quiet=as_json) as tick:
        cards = row_by_row(dataset, detector, profiles, track, limits, tick)
    folder = write_submission(out, facts, dataset, cards)
    if as_json:
        return print_json({"submission": str(folder), "recall": {c.profile: c.headline.value for c in cards}})
    for card in cards:
        print(card.text())
    print(f"submission: {folder}")


@click.command()
@data_set
@click.argument("submission", type=PATH)
@click.option(
    "--detector",
    type=DETECTOR,
    required=True,
    help="The submission's code, under the name that it was submitted by: file.py:Class, 'cmd:PROGRAM WORD ...'.",
)
@click.option(
    "--private", "data", type=DATA_SET, multiple=True, required=True, help="Data set of private seeds. May be repeated."
)
@click.option(
    "--out",
    type=PATH,
    default=Path("results/confirmed"),
    show_default=True,
    help="Folder of records, for `leaderboard --confirmed`.",
)
@limits_options
@as_json
def confirm(
    dir: Path, submission: Path, detector: str, data: Sequence[Path], out: Path, limits: Limits, as_json: bool
) -> None:
    """Run the code of a submission again, on private seeds too.

    For whoever keeps a board. On DIR, the data set of the claim, the code must raise the alarms of SUBMISSION; on the
    private data sets, whose runs its author has not seen, its score must not be lower than the claim by more than the
    intervals of both allow. OUT/NAME.json gets what was found. Read the code first: it runs with your permissions.

    Exit code 0: verified on private seeds; 1: not so.
    """
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.files import write_json
    from trainwreck.evaluation.leaderboard.confirmation import VERIFIED
    from trainwreck.evaluation.leaderboard.confirmation import confirm as run_again

    with progress("confirm", quiet=as_json) as tick:
        record = run_again(submission, detector, load(dir), [load(path) for path in data], limits, tick)
    file = out / f"{record['name']}.json"
    write_json(file, record)
    if as_json:
        print_json(record)
    else:
        print_record(record)
        print(f"record: {file}")
    if record["verdict"] != VERIFIED:
        sys.exit(1)


def print_record(record: dict[str, Any]) -> None:
    """What was found of each profile and track, a line a private data set."""
    print(f"{record['name']}: {record['verdict']}")
    print_table(
        ("profile", "track", "same alarms", "bitwise", "in-time recall, claimed", "private", "difference",
         "healthy stopped, claimed", "private", "verdict"),
        [
            (
                entry["profile"], entry["track"], f"{entry['close']} of {entry['runs']}", entry["equal"],
                _text(entry["claimed"]["recall"]), _text(part["recall"]), _text(part["recall_difference"]),
                _text(entry["claimed"]["stopped"]), _text(part["stopped"]), entry["verdict"],
            )
            for entry in record["entries"]
            for part in entry["private"]
        ],
    )  # fmt: skip
    for facts in record["private"]:
        if facts["calibration_shared"]:
            print(
                f"note: {facts['calibration_shared']} of the {facts['calibration']} calibration runs of "
                f"{facts['plan']} are public: a detector may know them"
            )


def _text(estimate: dict[str, float | None]) -> str:
    return interval_text(estimate["value"], estimate["low"], estimate["high"])

"""Logs of other tools: import, export, and imported runs for `score` and `report`."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainwreck.commands import choices
from trainwreck.commands.choices import PATH, OneOf
from trainwreck.commands.options import (
    as_json,
    blank_option,
    data_set,
    every_option,
    log_format_option,
    log_limits_options,
    map_option,
    pattern_option,
)
from trainwreck.commands.tables import print_json, print_table
from trainwreck.evaluation.errors import InputError, printable
from trainwreck.evaluation.intervals import interval_text
from trainwreck.evaluation.progress import progress
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.short_forms import count

if TYPE_CHECKING:
    from trainwreck.evaluation.dataset.dataset import DataSet
    from trainwreck.evaluation.logs.limits import LogLimits
    from trainwreck.evaluation.logs.real_runs.scores import RealScore

out_option = click.option("--out", type=PATH, required=True, help="A folder that is new or empty.")


@click.command("import")
@click.argument("logs", nargs=-1, required=True, type=PATH, metavar="LOG...")
@out_option
@log_format_option
@map_option
@blank_option
@every_option
@pattern_option
@click.option("--labels", type=PATH, help="CSV: run, status, step, cause, cluster.")
@log_limits_options
@as_json
def import_(
    logs: Sequence[Path],
    out: Path,
    format: str | None,
    mapping: Sequence[str],
    blank: str | None,
    every: int | None,
    pattern: str | None,
    labels: Path | None,
    limits: "LogLimits",
    as_json: bool,
) -> None:
    """Read training logs as a data set.

    A column is found by its name (docs/logs.md has the names) or named with --map my_loss=loss; the step is
    --map COLUMN=step, or --every N where there is none. What could only be guessed is refused with file and line; what
    was blank, skipped, repeated or out of order is counted, and kept in the manifest. Imported runs have no label by
    experiment: `score` lists alarms, or with --labels scores as far as these go.
    """
    from trainwreck.evaluation.logs.imported import import_logs
    from trainwreck.evaluation.logs.readers import parse_mapping

    entries = import_logs(
        logs,
        out,
        format=format,
        mapping=parse_mapping(mapping),
        labels=labels,
        blank=blank,
        every=every,
        pattern=pattern,
        limits=limits,
    )
    if as_json:
        return print_json({"data_set": str(out), "runs": entries})
    print_table(
        ("run", "format", "rows", "steps", "signals", "rules", "label"),
        [
            (e["run_id"], e["format"], e["rows"], f"{e['first_step']} to {e['last_step']}",
             ", ".join(e["signals"]), _rules(e), (e["label"] or {}).get("outcome"))
            for e in entries
        ],
    )  # fmt: skip
    ignored = sorted({(column, why) for entry in entries for column, why in entry["ignored"].items()})
    if ignored:
        print(f"ignored: {printable('; '.join(f'{column} ({why})' for column, why in ignored))}")
    for entry in entries:
        if entry["blanks"] and entry["blanks"]["since"]:
            print(printable(_blanks(entry)))
    print(f"{out}: {count(len(entries), 'run')}")


def _blanks(entry: dict[str, Any]) -> str:
    """What became of the rows at the end of a log in which the model has no value."""
    blanks = entry["blanks"]
    place, step = blanks["since"]
    what = f"{entry['run_id']}: no value in the last {blanks['rows']} rows, from {place} (step {step}) on: "
    why = f" ({blanks['why']})" if blanks["why"] else ""
    if not blanks["nan"]:
        return f"{what}not logged{why}; --blank nan reads NaN"
    read = ", ".join(f"{count} of {signal}" for signal, count in blanks["nan"].items())
    return f"{what}NaN, {read}{why}; --blank missing reads nothing"


def _rules(entry: dict[str, Any]) -> str | None:
    """What was done to the points of a run, the most that any of its signals needed."""
    counts = dict(entry["rules"])
    for what in ("repeated", "conflicting", "reordered", "overflowed", "gaps"):
        most = max(facts[what] for facts in entry["signals"].values())
        if most:
            counts[what] = most
    return ", ".join(f"{count} {what}" for what, count in counts.items()) or None


@click.command()
@data_set
@click.argument("run_ids", nargs=-1, metavar="[RUN_ID ...]")
@click.option("--to", type=OneOf(choices.EXPORT_FORMATS), required=True, help="The tool that reads it.")
@out_option
@as_json
def export(dir: Path, run_ids: Sequence[str], to: str, out: Path, as_json: bool) -> None:
    """Write runs in the formats of other tools.

    All runs of a data set, or those named. Every number that was recorded is in it, and runs.csv beside says what
    is true of each run. tensorboard, wandb (offline) and mlflow need their libraries: pip install 'trainwreck[export]'.
    logged: each run as a training program might have logged it, which is drawn from its id (docs/logs.md).
    """
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.logs.exporters import export as write

    written = write(load(dir), to, out, run_ids)
    if as_json:
        return print_json({"out": str(out), "to": to, "runs": written})
    for run_id, file in written.items():
        print(f"{run_id}: {out / file}")


def full_and_blind(profile: str, track: str) -> None:
    """InputError where imported runs are to be shown in another way."""
    for option, value, allowed in (("--profile", profile, "full"), ("--track", track, "blind")):
        if value != allowed:  # a log is thinned already, and declares no configuration
            raise InputError(f"{option}: {value!r} is not allowed on imported runs; allowed: {allowed}")


def print_alarms(dataset: Any, detectors: Sequence[str], limits: Limits, as_json: bool) -> None:
    """The alarms of detectors on imported runs, for `score`."""
    from trainwreck.evaluation.replay.unlabelled import alarms_on

    with progress("replay", quiet=as_json) as tick:
        entries = alarms_on(dataset, detectors, tick, limits)
    if as_json:
        print_json(entries)
    else:
        _print_alarms(entries)
        print(
            f"{dataset.path}: imported runs have no label by experiment: alarms only, no score; --labels FILE scores "
            "them as far as people's labels go"
        )
    crashed = [entry for entry in entries if entry["status"] != "ok"]
    if crashed:
        first = crashed[0]
        raise InputError(
            f"detector {first['detector']}: {first['status']} (on {len(crashed)} runs, first {first['run_id']})"
        )


def _print_alarms(entries: Sequence[dict[str, Any]]) -> None:
    print_table(
        ("detector", "run", "said of it", "failure step", "last step", "first alarm", "alarms", "causes", "status"),
        [
            (e["detector"], e["run_id"], (e["label"] or {}).get("outcome"), (e["label"] or {}).get("failure_step"),
             e["last_step"], e["first_alarm"], len(e["edges"]), ", ".join(e["causes"]) or None, e["status"])
            for e in entries
        ],
    )  # fmt: skip


def print_real(dataset: "DataSet", labels: Path, detectors: Sequence[str], limits: Limits, as_json: bool) -> None:
    """Scores on real runs, for `score --labels`."""
    from trainwreck.evaluation.logs.real_runs.runs import labelled
    from trainwreck.evaluation.logs.real_runs.scores import score_real

    runs = labelled(dataset, labels)
    with progress("replay", quiet=as_json) as tick:
        scores = score_real(dataset, runs, detectors, tick, limits)
    if as_json:
        print_json([score.to_dict() for score in scores])
    else:
        for score in scores:
            _print_score(score)
    crashed = [score for score in scores if score.crashes]
    if crashed:
        first = crashed[0]
        raise InputError(f"detector {first.detector}: {first.crashes[0]} (on {len(first.crashes)} runs)")


def print_real_board(
    dir: Path, labels: Path, detectors: Sequence[str], out: Path | None, at: str, limits: Limits, as_json: bool
) -> None:
    """The board of real runs, for `leaderboard --labels`, by all cores."""
    from joblib import cpu_count

    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.leaderboard.columns import BY_NAME, cells, heads
    from trainwreck.evaluation.logs.real_runs.board import real_board
    from trainwreck.evaluation.logs.real_runs.board_files import terminal, write_real_board

    dataset = load(dir)
    with progress("score detectors", quiet=as_json) as tick:
        board = real_board(dataset, labels, detectors or None, workers=cpu_count(), limits=limits, tick=tick)
    files = []
    if out is not None:
        files = write_real_board(out, dataset, labels, board, shlex.join(["trainwreck", *sys.argv[1:]]))
    for note in board.notes:
        print(f"note: {printable(note)}", file=sys.stderr)
    if as_json:
        return print_json(board.to_dict()["rows"])
    counts = board.counts
    print(
        f"{counts['failed']} failed real runs in {counts['clusters_failed']} clusters, {counts['healthy']} healthy in "
        f"{counts['clusters_healthy']}; shares are means over clusters"
    )
    print(f"operating point: {BY_NAME[at].title}")
    columns = terminal(at)
    print_table(heads(columns), [cells(row, columns) for row in board.to_dict()["rows"]])
    if files:
        print(f"board: {files[0]}")


def write_real(dir: Path, labels: Path, out: Path, detectors: Sequence[str], quiet: bool) -> Path:
    """The page of real runs, for `report --labels`."""
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.logs.real_runs.page import write_page

    with progress("report", quiet=quiet) as tick:
        return write_page(load(dir), labels, out, detectors, tick)


def _print_score(score: "RealScore") -> None:
    counts = score.counts
    print(
        f"{score.detector} on {counts['failed']} failed and {counts['healthy']} healthy real runs in "
        f"{counts['clusters']} clusters ({counts['unknown']} unknown left out)"
    )
    for name, share in (
        ("healthy runs stopped", score.false_stop),
        ("failed runs found, at or after the step", score.found),
        ("failed runs alarmed before the step", score.early),
        ("failed runs found under monitor", score.found_again),
    ):
        print(f"  {name:40} {interval_text(*share['run'])} by run, {interval_text(*share['cluster'])} by cluster")
    print(f"  false alarms per 10,000 healthy steps    {interval_text(*score.false_alarms)}")
    delay = interval_text(*score.delay, ".0f")
    print(f"  steps from the step to the alarm         {delay} (a miss counts to the end of the log)")
    if score.diagnosis:
        named = ", ".join(f"top {k} {interval_text(*value)}" for k, value in score.diagnosis.items())
        print(f"  cause, {named}")
    print(f"  {score.update_us:.1f} us an update")
    for name, why in score.not_defined.items():
        print(f"  not defined: {name} ({why})")
    for note in score.notes:
        print(f"  note: {printable(note)}")
    print_table(
        ("  cluster", "healthy", "stopped", "failed", "found", "before", "unknown"),
        [
            (f"  {c['cluster']}", c["healthy"], c["stopped"], c["failed"], c["found"], c["early"], c["unknown"])
            for c in score.clusters
        ],
    )

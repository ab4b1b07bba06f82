"""`trainwreck import`: other people's logs in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.progress import progress
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.options import as_json
from trainwreck.tables import print_json, print_table

OUT = click.option("--out", type=click.Path(path_type=Path), required=True, help="A folder that is new or empty.")


@click.command("import")
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="LOG...")
@OUT
@click.option(
    "--format",
    help="csv, jsonl, tensorboard, trainer_state, lightning, mlflow or wandb; by default what it looks like.",
)
@click.option("--map", "mapping", multiple=True, metavar="COLUMN=SIGNAL", help="What a column is. May be repeated.")
@click.option("--labels", type=click.Path(path_type=Path), help="CSV: run, status, step, cause, cluster.")
@as_json
def import_(
    logs: Sequence[Path], out: Path, format: str | None, mapping: Sequence[str], labels: Path | None, as_json: bool
) -> None:
    """Someone's own logs as a data set, so that detectors can be run over them.

    A column is found by its name (docs/logs.md has the names) or named with --map my_loss=loss; the step is
    --map COLUMN=step. What could only be guessed is refused with file and line; what was skipped, repeated or
    out of order is counted, and kept in the manifest. Nobody knows by experiment what a run is: `score` lists
    alarms, or with --labels what these allow.
    """
    from trainwreck.evaluation.logs.imported import import_logs
    from trainwreck.evaluation.logs.readers import parse_mapping

    entries = import_logs(logs, out, format=format, mapping=parse_mapping(mapping), labels=labels)
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
        print("ignored: " + "; ".join(f"{column} ({why})" for column, why in ignored))
    print(f"{out}: {len(entries)} runs")


def full_and_blind(profile: str, track: str) -> None:
    """InputError where imported runs are to be shown in another way."""
    for option, value, allowed in (("--profile", profile, "full"), ("--track", track, "blind")):
        if value != allowed:  # a log is thinned already, and declares no configuration
            raise InputError(f"{option}: {value!r} is not allowed on imported runs; allowed: {allowed}")


def print_alarms(dataset: Any, detectors: Sequence[str], limits: Limits, as_json: bool) -> None:
    """What detectors say of imported runs, for `score`."""
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


def _rules(entry: dict[str, Any]) -> str | None:
    """What was done to the points of a run, the most that any of its signals needed."""
    counts = dict(entry["rules"])
    for what in ("repeated", "conflicting", "reordered", "overflowed", "gaps"):
        most = max(facts[what] for facts in entry["signals"].values())
        if most:
            counts[what] = most
    return ", ".join(f"{count} {what}" for what, count in counts.items()) or None

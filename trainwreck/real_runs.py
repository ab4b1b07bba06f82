"""`score` and `report` on imported runs that somebody labelled."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.intervals import interval_text
from trainwreck.evaluation.progress import progress
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.tables import print_json, print_table

if TYPE_CHECKING:
    from trainwreck.evaluation.dataset.dataset import DataSet
    from trainwreck.evaluation.logs.real_runs.scores import RealScore


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
            _print(score)
    crashed = [score for score in scores if score.crashes]
    if crashed:
        first = crashed[0]
        raise InputError(f"detector {first.detector}: {first.crashes[0]} (on {len(first.crashes)} runs)")


def write_real(dir: Path, labels: Path, out: Path, detectors: Sequence[str], quiet: bool) -> Path:
    """The page of real runs, for `report --labels`."""
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.logs.real_runs.page import write_page

    with progress("report", quiet=quiet) as tick:
        return write_page(load(dir), labels, out, detectors, tick)


def _print(score: "RealScore") -> None:
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
    delay = interval_text(*score.delay, ".0f")
    print(f"  false alarms per 10,000 healthy steps    {interval_text(*score.false_alarms)}")
    print(f"  steps from the step to the alarm         {delay} (a miss counts to the end of the log)")
    if score.diagnosis:
        named = ", ".join(f"top {k} {interval_text(*value)}" for k, value in score.diagnosis.items())
        print(f"  cause, {named}")
    print(f"  {score.update_us:.1f} us an update")
    for name, why in score.not_defined.items():
        print(f"  not defined: {name} ({why})")
    for note in score.notes:
        print(f"  note: {note}")
    print_table(
        ("  cluster", "healthy", "stopped", "failed", "found", "before", "unknown"),
        [
            (f"  {c['cluster']}", c["healthy"], c["stopped"], c["failed"], c["found"], c["early"], c["unknown"])
            for c in score.clusters
        ],
    )

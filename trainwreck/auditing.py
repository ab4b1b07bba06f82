"""The commands that ask what a data set gives away, what it does not show, and whether it is the same as another."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.progress import progress
from trainwreck.options import as_json, data_set, named_folder, named_folders
from trainwreck.tables import number, print_json, print_table

if TYPE_CHECKING:
    from trainwreck.evaluation.audits.leakage import Audit
    from trainwreck.evaluation.dataset.dataset import DataSet
    from trainwreck.evaluation.dataset.diff import Comparison

WORST = 10  # bases that are printed


@click.command()
@data_set
@as_json
def audit(dir: Path, as_json: bool) -> None:
    """Does anything that a detector sees before a failure tell that the run will fail?

    A boosted classifier is tried on each channel: the first rows, missing values, number formats, the run's length,
    the order of the runs; apart from these the context of the informed track, and what the harness withholds. Exit
    code 0: nothing on the blind track does better than the majority prior; 1: something does.
    """
    from trainwreck.evaluation.audits.leakage import audit as examine
    from trainwreck.evaluation.dataset.dataset import load

    dataset = load(dir)
    with progress("audit", quiet=as_json) as tick:
        found = examine(dataset, tick)
    if as_json:
        print_json(found.to_dict())
    else:
        _print_audit(found)
    if found.leaks:
        sys.exit(1)


@click.command()
@click.argument(
    "dirs", nargs=-1, required=True, metavar="DIR ...", type=click.Path(path_type=Path), callback=named_folders
)
@click.option("--profile", "profiles", multiple=True, help="Only this one; may be repeated. All four by default.")
@click.option("--record", is_flag=True, help="Write results/equivalence/ and the sets that scores go by.")
@as_json
def equivalence(dirs: Sequence[Path], profiles: Sequence[str], record: bool, as_json: bool) -> None:
    """Which causes no signal of a profile tells apart, and which it does not show at all.

    Several data sets are taken as one. A cause needs failing runs of 8 seeds, on bases with 8 healthy runs.
    """
    from trainwreck.evaluation.audits.confusable.equivalence import equivalence as measure
    from trainwreck.evaluation.audits.confusable.record import page, summary
    from trainwreck.evaluation.audits.confusable.record import record as write
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.replay.profiles import PROFILES

    if record and profiles:
        raise InputError(f"--profile: {profiles[0]!r} is not allowed with --record; allowed: all profiles")
    datasets = [load(dir) for dir in dirs]
    with progress("equivalence", quiet=as_json) as tick:
        found = measure(datasets, profiles or tuple(PROFILES), tick)
    if record:
        from trainwreck.scenarios.training.environment import environment

        write(found, "trainwreck equivalence DIR ... --record", environment())
    if as_json:
        return print_json(found)
    print(page(found, "trainwreck equivalence") if len(found["profiles"]) == 1 else "\n".join(summary(found)))


@click.command()
@data_set
@click.argument("other", type=click.Path(path_type=Path), callback=named_folder)
@as_json
def compare(dir: Path, other: Path, as_json: bool) -> None:
    """Two data sets of one plan, made on two machines or by two versions: the first step and signal that differ.

    Exit code 0: every run of the first is in the second, to the bit, with the same labels; 1: not so.
    """
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.dataset.diff import common_runs, compare_data_sets

    one, two = load(dir), load(other)
    runs = len(common_runs(one, two))
    found = []
    with progress("compare", quiet=as_json) as tick:
        for comparison in compare_data_sets(one, two):
            found.append(comparison)
            tick(len(found), runs, f"run {comparison.run_id}")
    apart = [c for c in found if not c.identical or c.labels]
    missing = [sorted({*a.runs["run_id"]} - {*b.runs["run_id"]}) for a, b in ((one, two), (two, one))]
    if as_json:
        print_json(
            {
                "runs": runs,
                "identical": sum(c.identical for c in found),
                "only_in_first": missing[0],
                "only_in_second": missing[1],
                "differences": [c.to_dict() for c in apart],
            }
        )
    else:
        _print_comparison(one, apart, runs, missing)
    if apart or missing[0]:
        sys.exit(1)


def _print_comparison(one: "DataSet", apart: "list[Comparison]", runs: int, missing: list[list[str]]) -> None:
    if apart:
        print_table(
            ("run", "scenario", "from step", "first in", "by", "loss apart (nats)", "last loss (nats)", "labels"),
            [
                (c.run_id, one.run(c.run_id)["scenario"] or "healthy", c.step, c.signal or None, _short(c.difference),
                 _short(c.loss_difference), _short(c.final_difference), ", ".join(c.labels) or None)
                for c in apart
            ],
        )  # fmt: skip
    print(f"{runs - sum(not c.identical for c in apart)} of {runs} runs are identical to the bit")
    for ids, name in zip(missing, ("first", "second"), strict=True):
        if ids:
            print(f"{len(ids)} runs only in the {name}: {_few(ids)}")
    changed = sorted({part for c in apart for part in c.changed})
    if changed:
        print(f"environments differ in: {', '.join(changed)}")


def _short(value: float | None) -> str | None:
    return None if value is None else f"{value:.3g}"


def _print_audit(found: "Audit") -> None:
    print_table(
        ("channel", "track", "failing", "others", "balanced accuracy", "p", "verdict"),
        [
            (c.name, c.track, c.failing, c.others, f"{number(c.accuracy)} [{number(c.low)}, {number(c.high)}]",
             number(c.p), c.verdict)
            for c in found.channels
        ],
    )  # fmt: skip
    print("the majority prior has 0.500; rows under the fault are left out")
    cause = found.cause
    if cause["from_base"] is not None:
        print(
            f"the cause, of a run that fails: the base alone names {number(cause['from_base'])} of {cause['causes']} "
            f"causes' runs, the most frequent cause {number(cause['prior'])}"
        )
    if found.advice:
        print(found.advice)
        print_table(
            ("base", "failing", "healthy", "look-alike", "lacking", "scenarios"),
            [
                (b["base"], b["failing"], b["healthy"], b["look_alike"], b["lacking"], _few(b["scenarios"]))
                for b in found.bases[:WORST]
                if b["lacking"]
            ],
        )


def _few(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")

"""Data: data sets generated, labelled, reproduced, compared and released."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainwreck.commands import choices
from trainwreck.commands.choices import DATA_SET, PATH, OneOf, Suggested
from trainwreck.commands.options import (
    EngineOptions,
    as_backend,
    as_json,
    backend_options,
    data_set,
    engine_options,
    minutes_option,
    text_option,
    workers_option,
)
from trainwreck.commands.score import replayed, write_page
from trainwreck.commands.tables import number, print_board, print_json, print_table, shortened
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.progress import progress
from trainwreck.evaluation.short_forms import count

if TYPE_CHECKING:
    from trainwreck.evaluation.dataset.dataset import DataSet
    from trainwreck.evaluation.dataset.diff import Comparison, Summary


@click.command()
@click.option("--out", type=PATH, default=Path("demo"), show_default=True, help="Folder of the data set.")
@workers_option
@backend_options
@as_json
def demo(out: Path, workers: int | None, device: str | None, impl: str | None, as_json: bool) -> None:
    """Generate, label, score and report a small data set.

    Scored are the detectors that need no other library: importing and fitting those would take as long as all else.
    """
    from trainwreck.evaluation.detectors.registry import without_libraries
    from trainwreck.scenarios.datasets.plans import resolve

    name, specs = resolve(["demo"])
    train_plan(specs, out, name, workers, as_backend(device, impl), quiet=as_json)
    with without_libraries():
        rows = replayed(out, (), (), None, quiet=as_json)["rows"]
        page = write_page(out, out / "report.html", quiet=as_json)
    if as_json:
        print_json({"data_set": str(out), "report": str(page), "leaderboard": rows})
    else:
        print_board(rows, choices.AT[0])
        print(f"data set: {out}\nreport:   {page}")


@click.command()
@click.argument("plan", nargs=-1, type=Suggested(lambda: choices.PLANS, files=True))
@click.option("--out", type=PATH, required=True, help="Folder of the data set.")
@click.option("--salt", help="Of the plan `private`: draws its seeds; keep it to yourself.")
@click.option("--runs", type=int, help="Of the plan `wild`: how many.  [default: all, 3000 at most]")
@click.option(
    "--mix",
    metavar="A,B,C",
    help="Of the plan `wild`: shares of failures that end non-finite, that are stuck, and of others; or `even`: every "
    "scenario as often as any other.  [default: 0.4,0.3,0.3]",
)
@click.option(
    "--products",
    type=OneOf(choices.PRODUCTS),
    default=choices.PRODUCTS[0],
    help="Format of matrix products where runs have float32, sums in float32; bf16 makes other runs, faster on "
    "processors that have it.  [default: fp32]",
)
@click.option(
    "--part",
    metavar="K/N",
    help="The K-th of N parts of the plan, cut between healthy setups; `release` joins them.",
)
@text_option
@minutes_option
@engine_options
@backend_options
@as_json
def generate(
    plan: Sequence[str],
    out: Path,
    salt: str | None,
    runs: int | None,
    mix: str | None,
    products: str,
    part: str | None,
    text: Path | None,
    minutes: float | None,
    engine: EngineOptions,
    device: str | None,
    impl: str | None,
    as_json: bool,
) -> None:
    """Train the runs of a plan as a labelled data set.

    PLAN is demo, sample, rescue, standard, full, private, wild, coverage, a plan.json, or a sweep such as scenario=A,B
    seed=range(8). It says how many runs that is before it trains any.
    A data set begun on one engine goes on on another, and ends with the same bytes (docs/engines.md).
    """
    from trainwreck.scenarios.datasets.plans import SWEEP, planned, resolve

    name, specs = resolve(plan, salt, text, runs, mix, products, part)
    where = as_backend(device, impl)
    chosen = engine.settings(out, where.device, minutes)
    counts = planned(specs) if name in (SWEEP, f"{SWEEP}-{products}") and not as_json else ""
    dataset = train_plan(specs, out, name, None, where, quiet=as_json, minutes=minutes, engine=chosen, counts=counts)
    from trainwreck.evaluation.dataset.dataset import UNPROVEN
    from trainwreck.evaluation.labels.kinds import counted

    kinds = dataset.runs["kind"].value_counts().to_dict()
    if as_json:
        return print_json({"data_set": str(out), "runs": len(dataset), "kinds": kinds})
    print(f"{out}: {count(len(dataset), 'run')} ({', '.join(f'{v} {k}' for k, v in kinds.items())})")
    print(counted(dataset.runs.to_dict("records")))
    if UNPROVEN in dataset.runs and (ids := sorted(set(dataset.runs.loc[dataset.runs[UNPROVEN], "scenario"]))):
        print(f"not proven on this machine, so flagged in the labels: {', '.join(ids)}; see `trainwreck verify`")


@click.command()
@data_set
@click.option("--visible", is_flag=True, help="Write the visible steps, from telemetry alone: nothing is trained.")
@click.option(
    "--from",
    "source",
    type=DATA_SET,
    help="Take over the points of no return of another copy, bitwise the same: nothing is trained. Its manifest.json "
    "and runs.parquet are enough.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing: report how often healthy runs would be called visible, and how far visible steps move with "
    "the healthy runs that they rest on.",
)
@click.option(
    "--split",
    "splits",
    type=Suggested(lambda: choices.SPLITS),
    multiple=True,
    metavar="SPLIT",
    help="Train for the runs of this split only. May be repeated.",
)
@minutes_option
@workers_option
@as_json
def label(
    dir: Path,
    visible: bool,
    source: Path | None,
    check: bool,
    splits: Sequence[str],
    minutes: float | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Measure visible steps and points of no return.

    \b
    label DIR               train branches of failing runs, and write both
    label DIR --visible     write the visible steps
    label DIR --from OTHER  take over points of no return, and write both
    label DIR --check       report how certain the visible steps are

    A point of no return is the last step at which the cure still saves the run. It takes, for each failing run that
    ends badly, about as much training as three such runs, and resumes when called again; --split, --minutes and
    --workers are of this training. Labels are written into DIR.
    """
    from trainwreck.evaluation.dataset.sample import is_sample

    modes = [name for name, given in (("--visible", visible), ("--from", source), ("--check", check)) if given]
    if len(modes) > 1:
        raise InputError(f"{modes[1]}: not allowed beside {modes[0]}; allowed: one of them")
    for option, given in (("--split", splits), ("--minutes", minutes), ("--workers", workers)):
        if modes and given:
            raise InputError(f"{option}: not allowed beside {modes[0]}, which trains nothing; allowed: one of them")
    if not check and is_sample(dir):
        raise InputError("dir: 'sample' is not allowed, since labels are written into it; allowed: --check, or a copy")
    if check:
        from trainwreck.evaluation.dataset.dataset import load
        from trainwreck.evaluation.labels.stability import stability

        found = stability(load(dir))
        return print_json(found.to_dict()) if as_json else print(found.text())
    if modes:
        from trainwreck.evaluation.labels.labelling import relabel
        from trainwreck.scenarios.datasets.signatures import with_signatures

        if source:
            from trainwreck.evaluation.labels.transfer_labels import adopt

            print(f"{adopt(dir, source)} points of no return taken over from {source}", file=sys.stderr)
        rows = relabel(dir, with_signatures)
    else:
        from trainwreck.scenarios.proof.no_return_dataset import measure

        with progress("points of no return", quiet=as_json) as tick:
            rows = measure(
                dir,
                splits=splits,
                workers=workers,
                progress=lambda done, total, left: tick(done, total, f"run {done}/{total}", left),
                minutes=minutes,
            )
    shown = [r for r in rows if r["onset_step"] is not None]
    if as_json:
        columns = ("run_id", "kind", "onset_step", "visible_step", "no_return_step", "no_return_monotone", "outcome")
        return print_json([{k: r[k] for k in columns} for r in rows])
    print_table(
        ("run", "scenario", "kind", "onset", "visible", "no return", "outcome", "gap to twin"),
        [
            (r["run_id"], r["scenario"], r["kind"], r["onset_step"], r["visible_step"], r["no_return_step"],
             r["outcome"], number(r["final_gap"], "+"))
            for r in shown
        ],
    )  # fmt: skip


@click.command()
@data_set
@click.argument("run_id")
@as_json
def reproduce(dir: Path, run_id: str, as_json: bool) -> None:
    """Train a run again and compare it bitwise.

    Exit code 0: every number is the same; 1: not so.
    """
    from trainwreck.scenarios.datasets.reproduce import reproduce as again

    found = again(dir, run_id)
    if as_json:
        print_json(found.to_dict())
    else:
        print(found.text())
    if not found.identical:
        sys.exit(1)


@click.command()
@data_set
@click.argument("other", type=DATA_SET)
@as_json
def diff(dir: Path, other: Path, as_json: bool) -> None:
    """Compare two data sets of one plan.

    Made on two machines or by two versions: the first step and signal that differ, by how many nats the losses do, and
    in how many runs each label does: kind, first visible step (by more than two steps), point of no return (by more
    than 5 % of the run, where both have it). The last line is the verdict by tolerance.
    Exit code 0: every run of the first is in the second, bitwise and with the same labels; 1: not so.
    """
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.dataset.diff import common_runs, compare_data_sets, summarise

    one, two = load(dir), load(other)
    runs = len(common_runs(one, two))
    found = []
    with progress("diff", quiet=as_json) as tick:
        for comparison in compare_data_sets(one, two):
            found.append(comparison)
            tick(len(found), runs, f"run {comparison.run_id}")
    apart, summary = [c for c in found if not c.identical or c.labels], summarise(one, two, found)
    missing = [sorted({*a.runs["run_id"]} - {*b.runs["run_id"]}) for a, b in ((one, two), (two, one))]
    if as_json:
        print_json(
            {
                **summary.to_dict(),
                "only_in_first": missing[0],
                "only_in_second": missing[1],
                "differences": [c.to_dict() for c in apart],
            }
        )
    else:
        _print_differences(one, apart, summary, missing)
    if apart or missing[0]:
        sys.exit(1)


def _print_differences(one: "DataSet", apart: "list[Comparison]", summary: "Summary", missing: list[list[str]]) -> None:
    if apart:
        print_table(
            ("run", "scenario", "from step", "first in", "by", "loss apart (nats)", "last loss (nats)", "labels"),
            [
                (c.run_id, one.run(c.run_id)["scenario"] or "healthy", c.step, c.signal or None, _short(c.difference),
                 _short(c.loss_difference), _short(c.final_difference), ", ".join(c.labels) or None)
                for c in apart
            ],
        )  # fmt: skip
    print(summary.text())
    for ids, name in zip(missing, ("first", "second"), strict=True):
        if ids:
            print(f"{count(len(ids), 'run')} only in the {name}: {shortened(ids)}")
    changed = sorted({part for c in apart for part in c.changed})
    if changed:
        print(f"environments differ in: {', '.join(changed)}")


def _short(value: float | None) -> str | None:
    return None if value is None else f"{value:.3g}"


@click.command()
@data_set
@click.argument("parts", nargs=-1, metavar="[PART ...]", type=DATA_SET)
@click.option("--out", type=PATH, required=True, help="Folder of the release.")
@click.option("--private", is_flag=True, help="Only the private runs, with those to calibrate on.")
@click.option("--published", metavar="DAY", help="Day of publication for the metadata, as 2026-01-31.")
@click.option("--url", help="The data's page, for the metadata.")
@click.option(
    "--profile",
    "profiles",
    type=OneOf(choices.ALL_PROFILES),
    multiple=True,
    help="May be repeated.  [default: full; of --logs common]",
)
@click.option("--logs", is_flag=True, help="Only loss, validation loss, gradient norm and LR.")
@as_json
def release(
    dir: Path,
    parts: Sequence[Path],
    out: Path,
    private: bool,
    published: str | None,
    url: str | None,
    profiles: Sequence[str],
    logs: bool,
    as_json: bool,
) -> None:
    """Write a data set in the form for publication.

    Parquet by split, a card with a table of baselines (under each --profile), Croissant metadata and checksums. Private
    runs are left out. With --logs it is for detectors that read logs alone, and a small part of the bytes. Each PART is
    a data set, or a release, of another part of the same plan.
    """
    from joblib import cpu_count

    from trainwreck.evaluation.release import release as write

    with progress("release", quiet=as_json) as tick:
        dataset = write(
            dir,
            out,
            parts=parts,
            private=private,
            published=published,
            url=url,
            profiles=tuple(profiles),
            logs=logs,
            tick=tick,
            workers=cpu_count(),
        )
    splits = dataset.manifest["release"]["splits"]
    if as_json:
        return print_json({"release": str(out), "runs": len(dataset), "splits": splits})
    print(f"{out}: {count(len(dataset), 'run')} ({', '.join(f'{runs} {split}' for split, runs in splits.items())})")


def train_plan(
    specs: Any,
    out: Path,
    name: str,
    workers: int | None,
    where: Any,
    quiet: bool,
    minutes: float | None = None,
    engine: Any = None,
    counts: str = "",
) -> Any:
    """The data set of a plan, with progress.

    where: a backend. engine: so many workers of this machine by default. counts: a line that comes before the first
    run.
    """
    from trainwreck.scenarios.datasets.generate import generate as run_plan

    engine = engine or EngineOptions(workers=workers).settings(out, where.device)
    with progress(f"train {count(len(specs), 'run')}", quiet=quiet) as tick:

        def report(done: int, total: int, steps: int, all_steps: int, left: float | None) -> None:
            nonlocal counts
            if counts:
                print(counts, file=sys.stderr, flush=True)
                counts = ""
            tick(steps, all_steps, f"bundle {done}/{total}", left)

        return run_plan(specs, out, engine=engine, name=name, backend=where, progress=report, minutes=minutes)
